"""Commands that send, show and resend messages."""
