"""The simple consumer: receives, acknowledges and hides single messages by POP."""
