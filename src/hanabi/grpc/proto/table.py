"""Messages of `apache.rocketmq.v2` and their fields: number, name, kind.

    kind        string bytes bool int32 int64 float, or a message     (an enum is an int32: see `numbers`)
    kind?       optional: whether it is set is known
    kind*       repeated
    kind|name   one of several fields, of which at most one is set
    map         from text to text

Facts of rocketmq-apis. Fields that this server neither reads nor sets are left out: they are skipped when they arrive.
"""

from typing import Final

PACKAGE: Final = "apache.rocketmq.v2"
SERVICE: Final = "/apache.rocketmq.v2.MessagingService/"

MESSAGES: Final[dict[str, str]] = {
    "Timestamp": "1 seconds int64, 2 nanos int32",
    "Duration": "1 seconds int64, 2 nanos int32",
    "Status": "1 code int32, 2 message string",
    "Resource": "1 resource_namespace string, 2 name string",
    "FilterExpression": "1 type int32, 2 expression string",
    "ExponentialBackoff": "1 initial Duration, 2 max Duration, 3 multiplier float",
    "CustomizedBackoff": "1 next Duration*",
    "RetryPolicy": (
        "1 max_attempts int32, 2 exponential_backoff ExponentialBackoff|strategy,"
        " 3 customized_backoff CustomizedBackoff|strategy"
    ),
    "SubscriptionEntry": "1 topic Resource, 2 expression FilterExpression",
    "Address": "1 host string, 2 port int32",
    "Endpoints": "1 scheme int32, 2 addresses Address*",
    "Broker": "1 name string, 2 id int32, 3 endpoints Endpoints",
    "MessageQueue": (
        "1 topic Resource, 2 id int32, 3 permission int32, 4 broker Broker, 5 accept_message_types int32*"
    ),
    "Digest": "1 type int32, 2 checksum string",
    "DeadLetterQueue": "1 topic string, 2 message_id string",
    "SystemProperties": (
        "1 tag string?, 2 keys string*, 3 message_id string, 4 body_digest Digest, 5 body_encoding int32,"
        " 6 message_type int32, 7 born_timestamp Timestamp, 8 born_host string, 9 store_timestamp Timestamp?,"
        " 10 store_host string, 11 delivery_timestamp Timestamp?, 12 receipt_handle string?, 13 queue_id int32,"
        " 14 queue_offset int64?, 15 invisible_duration Duration?, 16 delivery_attempt int32?,"
        " 17 message_group string?, 18 trace_context string?, 19 orphaned_transaction_recovery_duration Duration?,"
        " 20 dead_letter_queue DeadLetterQueue?, 21 lite_topic string?, 22 priority int32?"
    ),
    "Message": "1 topic Resource, 2 user_properties map, 3 system_properties SystemProperties, 4 body bytes",
    "Assignment": "1 message_queue MessageQueue",
    "UA": "1 language int32, 2 version string, 3 platform string, 4 hostname string",
    "Publishing": "1 topics Resource*, 2 max_body_size int32, 3 validate_message_type bool",
    "Subscription": (
        "1 group Resource?, 2 subscriptions SubscriptionEntry*, 3 fifo bool?, 4 receive_batch_size int32?,"
        " 5 long_polling_timeout Duration?, 6 lite_subscription_quota int32?, 7 max_lite_topic_size int32?"
    ),
    "Metric": "1 on bool, 2 endpoints Endpoints?",
    "Settings": (
        "1 client_type int32?, 2 access_point Endpoints?, 3 backoff_policy RetryPolicy?, 4 request_timeout Duration?,"
        " 5 publishing Publishing|pub_sub, 6 subscription Subscription|pub_sub, 7 user_agent UA, 8 metric Metric"
    ),
    # Requests and replies
    "QueryRouteRequest": "1 topic Resource, 2 endpoints Endpoints",
    "QueryRouteResponse": "1 status Status, 2 message_queues MessageQueue*",
    "SendMessageRequest": "1 messages Message*",
    "SendResultEntry": (
        "1 status Status, 2 message_id string, 3 transaction_id string, 4 offset int64, 5 recall_handle string"
    ),
    "SendMessageResponse": "1 status Status, 2 entries SendResultEntry*",
    "QueryAssignmentRequest": "1 topic Resource, 2 group Resource, 3 endpoints Endpoints",
    "QueryAssignmentResponse": "1 status Status, 2 assignments Assignment*",
    "ReceiveMessageRequest": (
        "1 group Resource, 2 message_queue MessageQueue, 3 filter_expression FilterExpression, 4 batch_size int32,"
        " 5 invisible_duration Duration?, 6 auto_renew bool, 7 long_polling_timeout Duration?, 8 attempt_id string?"
    ),
    "ReceiveMessageResponse": (
        "1 status Status|content, 2 message Message|content, 3 delivery_timestamp Timestamp|content"
    ),
    "AckMessageEntry": "1 message_id string, 2 receipt_handle string, 3 lite_topic string?",
    "AckMessageRequest": "1 group Resource, 2 topic Resource, 3 entries AckMessageEntry*",
    "AckMessageResultEntry": "1 message_id string, 2 receipt_handle string, 3 status Status",
    "AckMessageResponse": "1 status Status, 2 entries AckMessageResultEntry*",
    "ForwardMessageToDeadLetterQueueRequest": (
        "1 group Resource, 2 topic Resource, 3 receipt_handle string, 4 message_id string, 5 delivery_attempt int32,"
        " 6 max_delivery_attempts int32, 7 lite_topic string?"
    ),
    "ForwardMessageToDeadLetterQueueResponse": "1 status Status",
    "HeartbeatRequest": "1 group Resource?, 2 client_type int32",
    "HeartbeatResponse": "1 status Status",
    "EndTransactionRequest": (
        "1 topic Resource, 2 message_id string, 3 transaction_id string, 4 resolution int32, 5 source int32,"
        " 6 trace_context string"
    ),
    "EndTransactionResponse": "1 status Status",
    "NotifyClientTerminationRequest": "1 group Resource?",
    "NotifyClientTerminationResponse": "1 status Status",
    "ChangeInvisibleDurationRequest": (
        "1 group Resource, 2 topic Resource, 3 receipt_handle string, 4 invisible_duration Duration,"
        " 5 message_id string, 6 lite_topic string?, 7 suspend bool?"
    ),
    "ChangeInvisibleDurationResponse": "1 status Status, 2 receipt_handle string",
    "RecallMessageRequest": "1 topic Resource, 2 recall_handle string",
    "RecallMessageResponse": "1 status Status, 2 message_id string",
    # Telemetry
    "PrintThreadStackTraceCommand": "1 nonce string",
    "ReconnectEndpointsCommand": "1 nonce string",
    "ThreadStackTrace": "1 nonce string, 2 thread_stack_trace string?",
    "VerifyMessageCommand": "1 nonce string, 2 message Message",
    "VerifyMessageResult": "1 nonce string",
    "RecoverOrphanedTransactionCommand": "1 message Message, 2 transaction_id string",
    "TelemetryCommand": (
        "1 status Status?, 2 settings Settings|command, 3 thread_stack_trace ThreadStackTrace|command,"
        " 4 verify_message_result VerifyMessageResult|command,"
        " 5 recover_orphaned_transaction_command RecoverOrphanedTransactionCommand|command,"
        " 6 print_thread_stack_trace_command PrintThreadStackTraceCommand|command,"
        " 7 verify_message_command VerifyMessageCommand|command,"
        " 8 reconnect_endpoints_command ReconnectEndpointsCommand|command"
    ),
}
