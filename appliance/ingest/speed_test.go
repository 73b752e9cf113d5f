package ingest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

var dbg string

func TestSpeed(t *testing.T) {
	if os.Getenv("SPEED") == "" {
		t.Skip()
	}
	slice := 400 * time.Millisecond
	rounds := 6
	if v := os.Getenv("ROUNDS"); v != "" {
		rounds, _ = strconv.Atoi(v)
	}
	modes := strings.Split(os.Getenv("MODE"), ",")
	labs := map[string]*lab{}
	var in *Ingest
	for _, mode := range modes {
		lanes := lanesOf("S", "orders.>")
		var l *lab
		if mode == "on" {
			l = newLab(t, true, lanes)
		} else {
			l = newLab(t, mode == "strict", nil)
		}
		labs[mode] = l
		l.stream(jetstream.StreamConfig{Name: "S", Subjects: []string{"orders.>"}, Storage: jetstream.FileStorage, MaxBytes: 1 << 30})
		if mode == "on" {
			b := filepath.Join(l.opts.StoreDir, "jetstream", l.account, "streams", "S", "batches")
			d, _ := os.MkdirTemp("/dev/shm", "hf")
			defer os.RemoveAll(d)
			if err := os.Symlink(d, b); err != nil {
				t.Fatal(err)
			}
			in = l.ingest(lanes)
		}
	}
	payload := make([]byte, 256)
	for _, f := range strings.Split(os.Getenv("SPEED"), ",") {
		n, _ := strconv.Atoi(f)
		conns := map[string][]nats.JetStreamContext{}
		for _, mode := range modes {
			for range n {
				js, _ := labs[mode].connect().JetStream()
				conns[mode] = append(conns[mode], js)
			}
		}
		rates := map[string][]float64{}
		var before [3]uint64
		if in != nil {
			s := in.Accounts()["A"]
			before = [3]uint64{s.Alone.Load(), s.Grouped.Load(), s.Batches.Load()}
		}
		for range rounds {
			for _, mode := range modes {
				var count atomic.Int64
				end := time.Now().Add(slice)
				begin := time.Now()
				var wg sync.WaitGroup
				for _, js := range conns[mode] {
					wg.Go(func() {
						for time.Now().Before(end) {
							if _, err := js.Publish("orders.new", payload); err != nil {
								t.Error(err)
								return
							}
							count.Add(1)
						}
					})
				}
				wg.Wait()
				rates[mode] = append(rates[mode], float64(count.Load())/time.Since(begin).Seconds())
			}
		}
		line := fmt.Sprintf("%4d:", n)
		var base float64
		for i, mode := range modes {
			slices.Sort(rates[mode])
			m := rates[mode][len(rates[mode])/2]
			if i == 0 {
				base = m
			}
			line += fmt.Sprintf("  %s %7.0f/s (%.2f)", mode, m, m/base)
		}
		if in != nil {
			s := in.Accounts()["A"]
			a, g, b := s.Alone.Load()-before[0], s.Grouped.Load()-before[1], s.Batches.Load()-before[2]
			line += fmt.Sprintf("   alone %d grouped %d batches %d (%.1f) fallbacks %d %s", a, g, b, float64(g)/float64(b), s.Fallbacks.Load(), dbg)
		}
		fmt.Println(line)
	}
}


