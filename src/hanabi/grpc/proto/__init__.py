"""Messages of `apache.rocketmq.v2`: their fields as a table, their classes, and the numbers of their enums."""
