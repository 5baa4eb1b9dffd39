"""The gRPC API of RocketMQ 5 (`apache.rocketmq.v2`): HTTP/2, messages, calls, and the port that serves them."""
