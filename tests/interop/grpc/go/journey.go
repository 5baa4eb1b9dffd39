// The Go client of RocketMQ 5 at its defaults: ENDPOINT TOPIC GROUP COUNT. One line on stdout for each message.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"
	"time"

	rmq "github.com/apache/rocketmq-clients/golang/v5"
	"github.com/apache/rocketmq-clients/golang/v5/credentials"
)

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	endpoint, topic, group := os.Args[1], os.Args[2], os.Args[3]
	count, err := strconv.Atoi(os.Args[4])
	must(err)
	config := func(group string) *rmq.Config {
		return &rmq.Config{Endpoint: endpoint, ConsumerGroup: group, Credentials: &credentials.SessionCredentials{}}
	}
	producer, err := rmq.NewProducer(config(""), rmq.WithTopics(topic))
	must(err)
	must(producer.Start())
	all := map[string]*rmq.FilterExpression{topic: rmq.SUB_ALL}
	consumer, err := rmq.NewSimpleConsumer(config(group), rmq.WithSimpleAwaitDuration(5*time.Second),
		rmq.WithSimpleSubscriptionExpressions(all))
	must(err)
	must(consumer.Start())
	for number := 0; number < count; number++ {
		message := &rmq.Message{Topic: topic, Body: []byte(fmt.Sprintf("message %d", number))}
		message.SetTag("tag")
		message.SetKeys(fmt.Sprintf("key-%d", number))
		message.AddProperty("colour", "blue")
		_, err = producer.Send(context.TODO(), message)
		must(err)
	}
	deadline := time.Now().Add(60 * time.Second)
	for received := 0; received < count && time.Now().Before(deadline); {
		messages, err := consumer.Receive(context.TODO(), 16, 30*time.Second)
		if err != nil {
			continue
		}
		for _, message := range messages {
			fmt.Printf("received|%s|%s|%s|%s\n", message.GetBody(), *message.GetTag(),
				strings.Join(message.GetKeys(), ","), message.GetProperties()["colour"])
			must(consumer.Ack(context.TODO(), message))
			received++
		}
	}
	must(producer.GracefulStop())
	must(consumer.GracefulStop())
	fmt.Println("stopped")
}
