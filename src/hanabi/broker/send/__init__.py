"""Parts of a send: target, flow control, stored form, and the intake into the store."""
