// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

// keyKind says how a value of an allowed key looks and is rendered.
type keyKind int

const (
	kindSize     keyKind = iota // 8MB
	kindCount                   // 100
	kindDuration                // 30s
	kindBool
	kindWriteTimeout
)

// allowedKeys are the nats-server keys that change nothing Holdfast relies on.
func allowedKeys() map[string]keyKind {
	return map[string]keyKind{
		"connect_error_reports":   kindCount,
		"disable_sublist_cache":   kindBool,
		"max_closed_clients":      kindCount,
		"max_connections":         kindCount,
		"max_control_line":        kindSize,
		"max_payload":             kindSize,
		"max_pending":             kindSize,
		"max_sub_tokens":          kindCount,
		"max_subscriptions":       kindCount,
		"no_fast_producer_stall":  kindBool,
		"ping_interval":           kindDuration,
		"ping_max":                kindCount,
		"reconnect_error_reports": kindCount,
		"write_deadline":          kindDuration,
		"write_timeout":           kindWriteTimeout,
	}
}

const (
	byAccounts  = "Holdfast owns it: accounts, users and permissions come from the key accounts"
	byIdentity  = "Holdfast owns it: it makes and keeps the operator and the account keys itself"
	byListen    = "Holdfast owns it: set listen instead"
	byTLS       = "Holdfast owns it: set listen.tls instead"
	byHTTP      = "Holdfast owns it: set listen.http instead"
	byStorage   = "Holdfast owns it: set storage instead"
	byCluster   = "Holdfast owns it: set cluster instead"
	byLog       = "Holdfast owns it: set log instead"
	byService   = "Holdfast owns it: the service manager knows the process, there is no such file"
	bySites     = "Holdfast does not support connections to other sites by hand"
	byLifecycle = "Holdfast owns it: it decides how long a stop takes"
)

// refusedKeys are the other top-level keys of the pinned server, with the
// reason. A test compares both tables with the server's source.
func refusedKeys() map[string]string {
	return map[string]string{
		"accounts": byAccounts, "authorization": byAccounts, "default_sentinel": byAccounts,
		"no_auth_user": byAccounts, "mappings": byAccounts, "maps": byAccounts,

		"operator": byIdentity, "operators": byIdentity, "roots": byIdentity, "root": byIdentity,
		"root_operators": byIdentity, "root_operator": byIdentity, "resolver": byIdentity,
		"account_resolver": byIdentity, "accounts_resolver": byIdentity, "resolver_tls": byIdentity,
		"resolver_preload": byIdentity, "resolver_pinned_accounts": byIdentity,
		"system_account": byIdentity, "system": byIdentity, "no_system_account": byIdentity,
		"no_system": byIdentity, "no_sys_acc": byIdentity, "trusted": byIdentity, "trusted_keys": byIdentity,

		"listen": byListen, "port": byListen, "host": byListen, "net": byListen,
		"websocket": byListen, "ws": byListen, "mqtt": byListen,
		"client_advertise": "Holdfast owns it: set listen.advertise instead",
		"tls":              byTLS, "allow_non_tls": byTLS, "ocsp": byTLS, "ocsp_cache": byTLS,
		"http": byHTTP, "https": byHTTP, "http_port": byHTTP, "monitor_port": byHTTP, "https_port": byHTTP,
		"http_base_path": byHTTP,

		"server_name":     "Holdfast owns it: set node.name instead",
		"server_tags":     "Holdfast owns it: set node.tags instead",
		"server_metadata": "Holdfast owns it: set node.tags instead",
		"store_dir":       "Holdfast owns it: set node.data_dir instead",
		"storedir":        "Holdfast owns it: set node.data_dir instead",
		"jetstream":       byStorage,

		"cluster": byCluster, "gateway": bySites, "leaf": bySites, "leafnodes": bySites,
		"default_js_domain": bySites,

		"debug": byLog, "trace": byLog, "trace_verbose": byLog, "trace_headers": byLog, "logtime": byLog,
		"logtime_utc": byLog, "logfile": byLog, "log_file": byLog, "logfile_size_limit": byLog,
		"log_size_limit": byLog, "logfile_max_num": byLog, "log_max_num": byLog, "syslog": byLog,
		"remote_syslog": byLog, "max_traced_msg_len": byLog,
		"pidfile": byService, "pid_file": byService, "ports_file_dir": byService,
		"lame_duck_duration": byLifecycle, "lame_duck_grace_period": byLifecycle,

		"prof_port":         "it is dangerous: it opens a port that shows memory to anyone",
		"prof_block_rate":   "it is dangerous: it slows every lock of the server",
		"feature_flags":     "it is dangerous: it changes what the server writes to disk and says to other nodes",
		"no_header_support": "it is dangerous: deduplication and batches need headers",
		"proxies":           "it would refuse the connections that Holdfast itself makes",
		"proxy_protocol":    "it would refuse the connections that Holdfast itself makes",

		"max_conn":                "write max_connections",
		"max_subs":                "write max_subscriptions",
		"max_subscription_tokens": "write max_sub_tokens",
		"no_sublist_cache":        "write disable_sublist_cache",
	}
}

// AllowedKey reports whether a key of nats-server may stand in the nats: block,
// and if not, why.
func AllowedKey(name string) (reason string, ok bool) {
	name = strings.ToLower(name)
	if _, ok := allowedKeys()[name]; ok {
		return "", true
	}
	if reason, known := refusedKeys()[name]; known {
		return reason, false
	}
	keys := slices.Sorted(maps.Keys(allowedKeys()))
	return "nats-server has no such key; the ones that may stand here are " + strings.Join(keys, ", "), false
}

// renderExtra returns one line of configuration, or an error that names the key
// and says what its value should look like.
func renderExtra(k ExtraKey) (string, error) {
	name := strings.ToLower(k.Name)
	kind, ok := allowedKeys()[name]
	if !ok {
		reason, _ := AllowedKey(name)
		return "", fmt.Errorf("nats.%s: %s", name, reason)
	}
	text := strings.TrimSpace(fmt.Sprint(k.Value))
	var want string
	switch kind {
	case kindSize:
		want, ok = "a size such as 8MB", regexp.MustCompile(`^[0-9]+([KMGkmg][Ii]?[Bb]?)?$`).MatchString(text)
	case kindCount:
		want, ok = "a whole number", regexp.MustCompile(`^[0-9]+$`).MatchString(text)
	case kindDuration:
		d, err := time.ParseDuration(text)
		want, ok = "a duration such as 30s", err == nil && d > 0
		text = quote(text)
	case kindBool:
		want, ok = "true or false", text == "true" || text == "false"
	case kindWriteTimeout:
		want, ok = "default, close or retry", slices.Contains([]string{"default", "close", "retry"}, text)
	}
	if !ok {
		return "", fmt.Errorf("nats.%s: got %q, want %s", name, fmt.Sprint(k.Value), want)
	}
	return name + ": " + text, nil
}
