// SPDX-License-Identifier: Apache-2.0

package config

import "cmp"

// The tags of these structs are the key table:
//
//	key      name in the file; under streams and consumers the JetStream API's own
//	help     one line for the reference page, the schema and the starter file
//	default  value when no file, variable or flag sets the key
//	example  value that the starter file shows when there is no default
//	enum     the values a key may have, separated by |
//	later    values ("*": all) that are checked but belong to a later version
//	restart  "yes" when a change needs a restart
//	own      "yes" for a key under streams or consumers that is Holdfast's, not the API's

// Config is the whole configuration of one node.
type Config struct {
	Node     Node               `key:"node" help:"this node"`
	Listen   Listen             `key:"listen" help:"addresses this node listens on"`
	Storage  Storage            `key:"storage" help:"how messages are kept on disk"`
	Cluster  *Cluster           `key:"cluster" help:"three replicas; absent on a single node" restart:"yes"`
	Accounts map[string]Account `key:"accounts" help:"isolated accounts, each with streams and users of its own" name:"account"`
	Alerts   Alerts             `key:"alerts" help:"thresholds that raise an alert"`
	Log      Log                `key:"log" help:"what is logged, and how"`
	NATS     string             `key:"nats" help:"nats-server settings that Holdfast does not model, as YAML text; an allow-list, everything else is refused with the reason" restart:"yes"`

	Uplink map[string]any `key:"uplink" help:"sends queues to a hub over a WAN" later:"*"`
	Sites  map[string]any `key:"sites" help:"receives queues of edge sites" later:"*"`
	Backup map[string]any `key:"backup" help:"scheduled backups" later:"*"`

	origin   *origins
	natsKeys []NATSKey
}

// Node identifies the node.
type Node struct {
	Name    string   `key:"name" help:"name of the node; empty: generated once and kept in the data directory, for a renamed node is a new peer" restart:"yes"`
	DataDir string   `key:"data_dir" path:"yes" help:"directory of messages, keys and state, on a local disk" default:"/var/lib/holdfast" restart:"yes"`
	Tags    []string `key:"tags" help:"tags of the node, for placement of streams" restart:"yes"`
}

// Listen holds the addresses the node listens on.
type Listen struct {
	Client    Address  `key:"client" help:"address for NATS clients" default:"127.0.0.1:4222" restart:"yes"`
	HTTP      Address  `key:"http" help:"address for reading only: /livez /readyz /metrics and NATS's own /varz /jsz; off switches it off" default:"127.0.0.1:8222" restart:"yes"`
	HTTPToken Secret   `key:"http_token" help:"file:PATH of a bearer token; required when listen.http is not a loopback address"`
	WebSocket Address  `key:"websocket" help:"address for WebSocket clients; empty is off" later:"*" restart:"yes"`
	MQTT      Address  `key:"mqtt" help:"address for MQTT devices; empty is off" later:"*" restart:"yes"`
	Leafnode  Address  `key:"leafnode" help:"address for leaf nodes; empty is off" later:"*" restart:"yes"`
	Advertise []string `key:"advertise" help:"names and addresses that clients use; they go into certificates too" restart:"yes"`
	TLS       TLS      `key:"tls" help:"encryption of the listeners"`
}

// TLS says how listeners are encrypted.
type TLS struct {
	Mode   string `key:"mode" help:"auto: plain on loopback, own CA beyond it; files: own certificates; off: loopback only" enum:"auto|files|off" default:"auto" restart:"yes"`
	Cert   string `key:"cert" path:"yes" help:"certificate file with its chain, with mode files; a new file is taken without a restart" restart:"yes"`
	Key    string `key:"key" path:"yes" help:"private key file, with mode files" restart:"yes"`
	CA     string `key:"ca" path:"yes" help:"file of the CA that signed client certificates, with mode files" restart:"yes"`
	Verify bool   `key:"verify" help:"clients must show a certificate of the CA, with mode files" restart:"yes"`
}

// Storage says how messages are kept.
type Storage struct {
	Durability   string     `key:"durability" help:"strict: fsync before the acknowledgement; interval: fsync every sync_interval, so a power cut loses what was acknowledged since" enum:"strict|interval" default:"strict" restart:"yes"`
	SyncInterval *Duration  `key:"sync_interval" help:"time between fsyncs, with durability interval only (then 1s unless set)" example:"1s" restart:"yes"`
	Limit        Share      `key:"limit" help:"what all streams together may use: a share of the volume's total size, or a size" default:"80%" restart:"yes"`
	MinFree      Share      `key:"min_free" help:"publishing stops with a clear error before less than this is free on the volume, and goes on by itself when there is more again; 5% but at most 8GiB unless set" example:"5%"`
	Encryption   Encryption `key:"encryption" help:"encryption of stored messages; off without a key" restart:"yes"`
	Verify       Verify     `key:"verify" help:"reading everything that is stored now and then, to find what the disk has lost before anybody needs it"`
}

// Verify says when everything that is stored is read.
type Verify struct {
	Every Duration `key:"every" help:"time from the end of one pass to the beginning of the next; 0s is never" default:"7d"`
	Rate  Size     `key:"rate" help:"bytes a second that a pass reads at most" default:"20MiB"`
}

// Encryption of stored messages.
type Encryption struct {
	Cipher      string `key:"cipher" help:"cipher for stored messages; that of the store unless set, aes for a new one. chacha is for machines without AES instructions" enum:"aes|chacha"`
	Key         Secret `key:"key" help:"file:PATH of the key, 32 characters or more" example:"file:/etc/holdfast/store.key"`
	PreviousKey Secret `key:"previous_key" help:"file:PATH of the key before, while the key is changed; alone it decrypts the store at the next start" example:"file:/etc/holdfast/store.key.old"`
}

// Cluster describes the three replicas.
type Cluster struct {
	Name      string   `key:"name" help:"name of the cluster, the same on every node"`
	Listen    Address  `key:"listen" help:"address for the other nodes; the port after it is for nodes that join; 0.0.0.0:6222 unless set" example:"0.0.0.0:6222"`
	Advertise string   `key:"advertise" help:"which of peers this node is; needed only where its own addresses and its host name don't tell"`
	Peers     []string `key:"peers" help:"host:port of all three nodes, this one included, in the same order on every node; the first makes the identity that all share"`
	Secret    Secret   `key:"secret" help:"file:PATH of the secret shared by the nodes, 32 characters or more"`
}

// defaultRoutes is cluster.listen where it is not set.
const defaultRoutes Address = "0.0.0.0:6222"

// Routes is the address for the other nodes.
func (c *Cluster) Routes() Address { return cmp.Or(c.Listen, defaultRoutes) }

// Nodes is how many nodes hold the messages.
func (c *Config) Nodes() int {
	if c.Cluster == nil {
		return 1
	}
	return len(c.Cluster.Peers)
}

// Replicated reports whether other nodes hold the same messages.
func (c *Config) Replicated() bool { return c.Nodes() > 1 }

// Account is an isolated tenant: the security boundary.
type Account struct {
	Limits  AccountLimits     `key:"limits" help:"what the account may use"`
	Streams map[string]Stream `key:"streams" help:"streams of the account; the name is the key" name:"stream"`
	Users   map[string]User   `key:"users" help:"users of the account; the name is the key" name:"user"`
}

// AccountLimits bounds what an account may use. A limit that is not set does
// not exist.
type AccountLimits struct {
	Disk          *Size  `key:"disk" help:"bytes on disk for all streams of the account"`
	Memory        *Size  `key:"memory" help:"bytes in memory for all memory streams of the account"`
	Streams       *Count `key:"streams" help:"number of streams"`
	Consumers     *Count `key:"consumers" help:"number of consumers of one stream"`
	Connections   *Count `key:"connections" help:"number of client connections"`
	Subscriptions *Count `key:"subscriptions" help:"number of subscriptions of one connection"`
	Payload       *Size  `key:"payload" help:"bytes of the largest message" example:"1MiB"`
}

// User is somebody who may connect to an account.
type User struct {
	Role        string       `key:"role" help:"admin: the whole account; producer: publish to its streams; worker: read and acknowledge on its consumers; observer: look only" enum:"admin|producer|worker|observer" default:"admin"`
	Streams     []string     `key:"streams" help:"streams a producer publishes to"`
	Consumers   []string     `key:"consumers" help:"consumers a worker reads, as STREAM/CONSUMER"`
	Permissions *Permissions `key:"permissions" help:"raw subjects instead of a role"`
	NKey        string       `key:"nkey" help:"public key (U…) of a key pair the user made itself: Holdfast never has its seed"`
	Inbox       string       `key:"inbox" help:"private: replies come to _inbox.<user>; shared: also _INBOX, which others with a shared inbox can read" enum:"private|shared" default:"private"`
}

// Permissions are raw subjects for a user without a role.
type Permissions struct {
	Publish   []Subject `key:"publish" help:"subjects the user may publish to"`
	Subscribe []Subject `key:"subscribe" help:"subjects the user may subscribe to"`
}

// Alerts are thresholds for the whole node.
type Alerts struct {
	Disk        Share    `key:"disk" help:"share of storage.limit in use" later:"*"`
	Lag         *Count   `key:"lag" help:"messages a consumer is behind" later:"*"`
	Oldest      Duration `key:"oldest" help:"age of the oldest unacknowledged message" example:"5m" later:"*"`
	Redelivered *Count   `key:"redelivered" help:"messages delivered more than once and not yet acknowledged" example:"100" later:"*"`
	Webhook     string   `key:"webhook" help:"URL that is told of alerts" later:"*"`
}

// Log says what is logged.
type Log struct {
	Level  string `key:"level" help:"least severe level that is logged" enum:"debug|info|warn|error" default:"info" restart:"yes"`
	Format string `key:"format" help:"auto: text for people, journal lines under systemd; or always text, or json" enum:"auto|text|json" default:"auto" restart:"yes"`
}
