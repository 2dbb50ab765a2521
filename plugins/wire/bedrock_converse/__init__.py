"""The Converse API of Amazon Bedrock, streamed and whole, on boto3."""
