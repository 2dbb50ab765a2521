"""The wire format of Anthropic's Messages API, streamed and whole, on the anthropic SDK."""
