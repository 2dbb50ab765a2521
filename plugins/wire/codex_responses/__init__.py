"""The wire format of OpenAI's Responses API, streamed and whole, on the openai SDK."""
