// SPDX-License-Identifier: Apache-2.0

package identity_test

// action is something that a client may try, and why it must not work.
type action struct {
	verb    string // pub, sub
	subject string
	more    string // the reply of a pub, the queue of a sub
	why     string
}

// nobody lists what no role but admin may do, on the objects of the world below.
func nobody() []action {
	const message = "0.1.1.1.1"
	return []action{
		{"pub", "$JS.API.STREAM.CREATE.MINE", "", "creates a stream, over anybody's subjects"},
		{"pub", "$JS.API.STREAM.UPDATE.ORDERS", "", "changes a stream's limits, and so drops messages"},
		{"pub", "$JS.API.STREAM.DELETE.ORDERS", "", "deletes messages"},
		{"pub", "$JS.API.STREAM.PURGE.ORDERS", "", "deletes messages"},
		{"pub", "$JS.API.STREAM.MSG.DELETE.ORDERS", "", "deletes a message"},
		{"pub", "$JS.API.STREAM.MSG.GET.ORDERS", "", "reads any message"},
		{"pub", "$JS.API.DIRECT.GET.ORDERS", "", "reads any message"},
		{"pub", "$JS.API.DIRECT.GET.ORDERS.orders.1", "", "reads the last message of a subject"},
		{"pub", "$JS.API.STREAM.SNAPSHOT.ORDERS", "", "reads all messages"},
		{"pub", "$JS.API.STREAM.RESTORE.MINE", "", "creates a stream"},
		{"pub", "$JS.API.STREAM.LEADER.STEPDOWN.ORDERS", "", "interrupts a stream"},
		{"pub", "$JS.API.STREAM.PEER.REMOVE.ORDERS", "", "removes a replica"},
		{"pub", "$JS.API.CONSUMER.CREATE.ORDERS", "", "creates an ephemeral consumer, which reads anything"},
		{"pub", "$JS.API.CONSUMER.CREATE.ORDERS.fulfil", "", "changes a consumer, or creates it without a filter"},
		{"pub", "$JS.API.CONSUMER.CREATE.ORDERS.fulfil.orders.>", "", "changes a consumer, or creates it"},
		{"pub", "$JS.API.CONSUMER.CREATE.ORDERS.mine", "", "creates a consumer, which reads anything"},
		{"pub", "$JS.API.CONSUMER.DURABLE.CREATE.ORDERS.mine", "", "creates a consumer, in the older form"},
		{"pub", "$JS.API.CONSUMER.DELETE.ORDERS.fulfil", "", "deletes a consumer, and where it was"},
		{"pub", "$JS.API.CONSUMER.PAUSE.ORDERS.fulfil", "", "stops a consumer"},
		{"pub", "$JS.API.CONSUMER.UNPIN.ORDERS.fulfil", "", "takes a client's turn away"},
		{"pub", "$JS.API.CONSUMER.LEADER.STEPDOWN.ORDERS.fulfil", "", "interrupts a consumer"},
		{"pub", "$JS.API.CONSUMER.MSG.NEXT.ORDERS.other", "", "pulls from a consumer that is not its own"},
		{"pub", "$JS.API.CONSUMER.MSG.NEXT.BILLS.fulfil", "", "pulls from a stream that is not its own"},
		{"pub", "$JS.ACK.ORDERS.other." + message, "", "acknowledges for another consumer"},
		{"pub", "$JS.ACK.BILLS.fulfil." + message, "", "acknowledges on another stream"},
		{"pub", "$JS.ACK.domain.account.ORDERS.other." + message, "", "the same in the second form"},
		{"pub", "$JS.ACK.domain.account.BILLS.fulfil." + message, "", "the same in the second form"},
		{"pub", "$JS.FC.ORDERS.fulfil.x", "", "answers flow control of a push consumer"},
		{"pub", "$JS.API.META.LEADER.STEPDOWN", "", "interrupts all of JetStream"},
		{"pub", "$JS.API.SERVER.REMOVE", "", "removes a server"},
		{"pub", "$JS.API.ACCOUNT.PURGE.A", "", "deletes all of an account"},
		{"pub", "$SYS.REQ.SERVER.PING", "", "asks about servers"},
		{"pub", "$SYS.REQ.CLAIMS.UPDATE", "", "changes accounts"},
		{"pub", "$SYS.REQ.ACCOUNT.PING.CONNZ", "", "sees who else is connected"},
		{"pub", "$KV.settings.key", "", "writes into a bucket"},
		{"pub", "$KV.settings.>", "", "a wildcard to publish on, which is no subject"},
		{"pub", "$O.files.C.x", "", "writes into an object store"},
		{"pub", "bills.1", "", "publishes on another stream's subject"},
		{"pub", "parts.1", "", "publishes on a subject of another account's stream"},
		{"pub", "_inbox.boss.x", "", "answers for somebody else"},
		{"pub", "_INBOX.x.y", "", "answers for somebody else"},
		{"pub", "$JS.EVENT.ADVISORY.STREAM.DELETED.ORDERS", "", "forges news"},
		{"pub", "_R_.x", "", "forges the server's own reply"},

		{"sub", ">", "", "reads everything"},
		{"sub", "*", "", "reads everything of one token"},
		{"sub", "*.>", "", "reads everything of more"},
		{"sub", "_inbox.>", "", "reads all replies"},
		{"sub", "_inbox.*.x", "", "reads all replies"},
		{"sub", "_inbox.boss.>", "", "reads another user's replies"},
		{"sub", "_inbox.*", "", "reads what is asked with a prefix that is too short"},
		{"sub", "_INBOX.>", "", "reads what others pull"},
		{"sub", "orders.>", "", "reads what is published, as it passes"},
		{"sub", "bills.1", "", "reads what is published, as it passes"},
		{"sub", "orders.>", "workers", "takes its share of what passes"},
		{"sub", "_inbox.boss.>", "workers", "takes another user's replies"},
		{"sub", "$JS.>", "", "sees all requests"},
		{"sub", "$JS.API.>", "", "sees all requests"},
		{"sub", "$JS.API.STREAM.CREATE.*", "", "answers in the server's place"},
		{"sub", "$JS.ACK.>", "", "sees all acknowledgements"},
		{"sub", "$JS.FC.>", "", "sees flow control"},
		{"sub", "$JS.EVENT.>", "", "sees requests with their answers"},
		{"sub", "$JS.EVENT.ADVISORY.>", "", "sees requests with their answers"},
		{"sub", "$JS.EVENT.ADVISORY.API", "", "sees requests with their answers, messages among them"},
		{"sub", "$SYS.>", "", "sees the system"},
		{"sub", "$SYS.ACCOUNT.>", "", "sees who connects"},
		{"sub", "$KV.>", "", "reads buckets"},
		{"sub", "parts.>", "", "a subject of another account's stream"},
	}
}

// refused lists, for each user of the world, what it must not do besides.
func refused() map[string][]action {
	const message = "0.1.1.1.1"
	info := []action{
		{"pub", "$JS.API.INFO", "", "sees the account's use"},
		{"pub", "$JS.API.STREAM.NAMES", "", "sees which streams there are"},
		{"pub", "$JS.API.STREAM.LIST", "", "sees which streams there are"},
		{"pub", "$JS.API.STREAM.INFO.BILLS", "", "sees another stream"},
		{"pub", "$JS.API.CONSUMER.NAMES.ORDERS", "", "sees who else reads"},
		{"pub", "$JS.API.CONSUMER.LIST.ORDERS", "", "sees who else reads"},
		{"pub", "$JS.API.CONSUMER.INFO.ORDERS.other", "", "sees another consumer"},
		{"pub", "$JS.API.CONSUMER.INFO.BILLS.fulfil", "", "sees another stream's consumer"},
		{"sub", "$JS.EVENT.ADVISORY.STREAM.>", "", "hears of streams"},
		{"sub", "$JS.EVENT.ADVISORY.CONSUMER.>", "", "hears of consumers"},
		{"sub", "$JS.EVENT.METRIC.CONSUMER.>", "", "hears of consumers"},
	}
	work := []action{
		{"pub", "$JS.API.CONSUMER.MSG.NEXT.ORDERS.fulfil", "", "pulls"},
		{"pub", "$JS.ACK.ORDERS.fulfil." + message, "", "acknowledges"},
		{"pub", "$JS.ACK.domain.account.ORDERS.fulfil." + message, "", "acknowledges"},
	}
	look := []action{
		{"pub", "$JS.API.STREAM.INFO.ORDERS", "", "sees the stream"},
		{"pub", "$JS.API.CONSUMER.INFO.ORDERS.fulfil", "", "sees the consumer"},
	}
	publish := []action{{"pub", "orders.1", "", "publishes"}}
	join := func(lists ...[]action) []action {
		var all []action
		for _, l := range append(lists, nobody()) {
			all = append(all, l...)
		}
		return all
	}
	return map[string][]action{
		"checkout": join(info, work, look, []action{
			{"pub", "orders", "", "publishes outside of its subjects"},
			{"pub", "orders.1", "$JS.API.STREAM.DELETE.ORDERS", "lets the server make a request in its place"},
			{"pub", "orders.1", "$JS.ACK.ORDERS.fulfil." + message, "lets the server acknowledge in its place"},
		}),
		"packer": join(info, publish, []action{
			{"pub", "$JS.API.CONSUMER.MSG.NEXT.ORDERS.fulfil", "$JS.API.STREAM.PURGE.ORDERS", "lets the server make a request in its place"},
			{"pub", "$JS.ACK.ORDERS.fulfil." + message, "$JS.ACK.ORDERS.other." + message, "lets the server acknowledge in its place"},
			{"pub", "$JS.API.CONSUMER.MSG.NEXT.ORDERS", "", "a request with a token too few"},
			{"pub", "$JS.API.CONSUMER.MSG.NEXT.ORDERS.fulfil.x", "", "a request with a token too many"},
		}),
		// Its names are digits, so that an acknowledgement for it in the second form
		// could be one for another consumer in the first.
		"counter": join(info, publish, work, look, []action{
			{"pub", "$JS.ACK.ORDERS.fulfil.1.5.1.1.0", "", "acknowledges message 5 of another consumer"},
			{"pub", "$JS.ACK.d.a.1.5.1.1.1.1.0", "", "the second form, which is therefore not allowed"},
		}),
		"auditor": join(publish, work, []action{
			{"pub", "$JS.API.STREAM.INFO.ORDERS", "$JS.API.STREAM.PURGE.ORDERS", "lets the server make a request in its place"},
			{"pub", "$JS.API.STREAM.INFO", "", "a request with a token too few"},
			{"sub", "$JS.EVENT.METRIC.>", "", "more than consumers"},
		}),
		// It has no subjects. An empty list of permissions would let it do everything.
		"idle": join(info, publish, work, look),
		"legacy": join(info, publish, work, look, []action{
			{"pub", "x", "", "not listed, although x.> is"},
			{"pub", "y.1", "", "listed for subscribing only"},
			{"sub", "x.1", "", "listed for publishing only"},
			{"sub", "y", "", "not listed, although y.> is"},
			{"pub", "x.1", "$JS.API.STREAM.DELETE.ORDERS", "lets the server make a request in its place"},
		}),
	}
}
