// SPDX-License-Identifier: Apache-2.0

package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/holdfast-mq/holdfast/bootstrap"
)

// longEnough is how long a consumer that nobody uses has to live while a cluster takes in
// its stream, during which its client can't be there.
const longEnough = 10 * time.Minute

// Assigned is a stream that a cluster is to assign to one of its nodes: as it stands in
// the store of that node.
type Assigned struct {
	Account, Stream string // Account is a name
	Config          map[string]any
	Consumers       map[string]map[string]any
}

func (s Assigned) object() object { return object{account: s.Account, stream: s.Stream} }

func (s Assigned) consumer(name string) object {
	return object{account: s.Account, stream: s.Stream, consumer: name}
}

// Assign has the cluster assign a stream with one copy and all of its consumers to the
// node with a tag. What an earlier try assigned is brought up to date; a stream that has
// messages already is refused, for it is another one.
func (c *Client) Assign(ctx context.Context, s Assigned, tag string) error {
	o := s.object()
	config := maps.Clone(s.Config)
	config["num_replicas"] = 1
	config["placement"] = map[string]any{"tags": []string{tag}}
	var have struct {
		State struct {
			LastSeq uint64 `json:"last_seq"`
		} `json:"state"`
	}
	var answer struct{}
	err := c.request(ctx, o.account, o.subject("INFO"), struct{}{}, &have)
	switch {
	case code(err) == codeStreamNotFound:
		err = c.create(ctx, o, config)
	case err != nil:
	case have.State.LastSeq > 0:
		return fmt.Errorf("assign %s: the cluster has one of that name, with messages", o)
	case c.request(ctx, o.account, o.subject("UPDATE"), config, &answer) != nil:
		// It changed in the meantime in a way that an update does not take.
		if err = c.request(ctx, o.account, o.subject("DELETE"), struct{}{}, &answer); err == nil {
			err = c.create(ctx, o, config)
		}
	}
	if err != nil {
		return fmt.Errorf("assign %s: %w", o, err)
	}
	return c.assignConsumers(ctx, s)
}

// create makes a stream with a configuration that another one has come to. None is made
// sealed, and the store's would not open as one that is not.
func (c *Client) create(ctx context.Context, o object, config map[string]any) error {
	first := maps.Clone(config)
	delete(first, "sealed")
	err := c.request(ctx, o.account, o.subject("CREATE"), first, &struct{}{})
	if err == nil && config["sealed"] == true {
		err = c.request(ctx, o.account, o.subject("UPDATE"), config, &struct{}{})
	}
	return err
}

func (c *Client) assignConsumers(ctx context.Context, s Assigned) error {
	have, err := c.observeConsumers(ctx, s.Account, s.Stream, false)
	if err != nil {
		return fmt.Errorf("assign %s: list its consumers: %w", s.object(), err)
	}
	var answer struct{}
	for _, name := range slices.Sorted(maps.Keys(s.Consumers)) {
		o := s.consumer(name)
		err := c.request(ctx, o.account, o.subject("CREATE"), o.creation(oneCopy(s.Consumers[name]), ""), &answer)
		if err == nil {
			continue
		}
		if _, there := have[name]; there && errors.As(err, new(*apiError)) {
			if err = c.request(ctx, o.account, o.subject("DELETE"), struct{}{}, &answer); err == nil {
				err = c.request(ctx, o.account, o.subject("CREATE"), o.creation(oneCopy(s.Consumers[name]), ""), &answer)
			}
		}
		if err != nil {
			return fmt.Errorf("assign %s: %w", o, err)
		}
	}
	for name := range have {
		if _, wanted := s.Consumers[name]; wanted {
			continue
		}
		if err := c.request(ctx, s.Account, s.consumer(name).subject("DELETE"), struct{}{}, &answer); err != nil && code(err) != codeConsumerNotFound {
			return fmt.Errorf("assign %s: remove what is not in the store: %w", s.consumer(name), err)
		}
	}
	return nil
}

func oneCopy(config map[string]any) map[string]any {
	out := maps.Clone(config)
	if number(out["num_replicas"]) > 1 {
		out["num_replicas"] = 1
	}
	_, durable := out["durable_name"]
	if idle := number(out["inactive_threshold"]); (idle > 0 || !durable) && idle < int64(longEnough) {
		out["inactive_threshold"] = int64(longEnough)
	}
	return out
}

// Unassign removes an empty stream that is not in the store any more.
func (c *Client) Unassign(ctx context.Context, account, stream string) error {
	o := object{account: account, stream: stream}
	err := c.request(ctx, o.account, o.subject("DELETE"), struct{}{}, &struct{}{})
	if err != nil && code(err) != codeStreamNotFound {
		return fmt.Errorf("remove %s, which is not in the store: %w", o, err)
	}
	return nil
}

// ErrNotAssigned means that the cluster does not know a stream or a consumer.
var ErrNotAssigned = errors.New("the cluster does not know it")

// Serves reports whether the cluster has the stream and all of its consumers, and
// somebody answers for them.
func (c *Client) Serves(ctx context.Context, s Assigned) error {
	objects := []object{s.object()}
	for name := range s.Consumers {
		objects = append(objects, s.consumer(name))
	}
	for _, o := range objects {
		err := c.request(ctx, o.account, o.subject("INFO"), struct{}{}, &struct{}{})
		if code(err) == codeStreamNotFound || code(err) == codeConsumerNotFound {
			err = ErrNotAssigned
		}
		if err != nil {
			return fmt.Errorf("%s: %w", o, err)
		}
	}
	return nil
}

// Place gives a stream, as it is now, its placement and a number of copies; 0 leaves the
// number alone. It does nothing where nothing changes, and may have to be called until
// Lacks says that the copies are there.
func (c *Client) Place(ctx context.Context, s Assigned, copies int) error {
	o := s.object()
	config, err := c.config(ctx, o)
	if err != nil {
		return fmt.Errorf("place %s: %w", o, err)
	}
	want := maps.Clone(config)
	if placement, ok := s.Config["placement"]; ok {
		want["placement"] = placement
	} else {
		delete(want, "placement")
	}
	if copies > 0 {
		want["num_replicas"] = json.Number(fmt.Sprint(copies))
	}
	if copies > 0 && (bootstrap.Widening(config) || widens(config, want)) {
		if err := c.widen(ctx, o, config, int64(copies), 0, Order{}); err != nil && !errors.Is(err, errWidening) {
			return fmt.Errorf("place %s: %w", o, err)
		}
		return nil
	}
	if reflect.DeepEqual(config, want) {
		return nil
	}
	if err := c.request(ctx, o.account, o.subject("UPDATE"), want, &struct{}{}); err != nil {
		return fmt.Errorf("place %s: %w", o, err)
	}
	return nil
}

// Lacks is what of a stream and its consumers does not have all of its copies yet, or one
// without everything: "" for the stream, names for consumers, and nothing when all is
// there. Consumers get theirs after their stream. wanted is how many copies the stream is
// to have.
func (c *Client) Lacks(ctx context.Context, s Assigned, wanted int) ([]string, error) {
	names := slices.Sorted(maps.Keys(s.Consumers))
	copied, err := c.copied(ctx, s.object(), wanted)
	if err != nil {
		return nil, err
	}
	if !copied {
		return append([]string{""}, names...), nil
	}
	var lacks []string
	for _, name := range names {
		copied, err := c.copied(ctx, s.consumer(name), wanted)
		if err != nil {
			return nil, err
		}
		if !copied {
			lacks = append(lacks, name)
		}
	}
	return lacks, nil
}

// copied reports whether a stream or a consumer has all of its copies, and each copy
// everything.
func (c *Client) copied(ctx context.Context, o object, wanted int) (bool, error) {
	var info struct {
		Config struct {
			Replicas int               `json:"num_replicas"`
			Metadata map[string]string `json:"metadata"`
		} `json:"config"`
		Cluster struct {
			Leader   string `json:"leader"`
			Replicas []struct {
				Current bool `json:"current"`
				Offline bool `json:"offline"`
			} `json:"replicas"`
		} `json:"cluster"`
	}
	err := c.request(ctx, o.account, o.subject("INFO"), struct{}{}, &info)
	if code(err) == codeConsumerNotFound {
		return true, nil // one that nobody used any more
	}
	if err != nil {
		return false, fmt.Errorf("ask for the copies of %s: %w", o, err)
	}
	if o.consumer == "" && info.Config.Metadata[bootstrap.MetaWidened] != "" {
		return false, nil
	}
	current := 0
	for _, r := range info.Cluster.Replicas {
		if r.Current && !r.Offline {
			current++
		}
	}
	if o.consumer != "" && info.Config.Replicas > 0 {
		wanted = info.Config.Replicas
	}
	return info.Cluster.Leader != "" && current+1 >= wanted, nil
}
