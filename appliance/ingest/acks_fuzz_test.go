// SPDX-License-Identifier: Apache-2.0

package ingest

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"
)

// script is a source of decisions: bytes that a fuzzer or a seed made.
type script []byte

func (s *script) n(below int) int {
	if len(*s) == 0 {
		return 0
	}
	b := (*s)[0]
	*s = (*s)[1:]
	return int(b) % below
}

// steps are what can happen. How often one stands here is how often it is chosen.
func steps() []func(*world, *script) {
	var out []func(*world, *script)
	for _, s := range []struct {
		weight int
		step   func(*world, *script)
	}{
		{5, func(w *world, s *script) {
			if !w.gone {
				w.publish(1 + s.n(60))
			}
		}},
		{6, func(w *world, s *script) { w.deliver(1 + s.n(60)) }},
		{10, acknowledge},
		{3, oddly},
		{2, stale},
		{8, func(w *world, _ *script) { w.settle() }},
		{3, func(w *world, _ *script) { w.serveAck() }},
		{3, func(w *world, _ *script) { w.serveAPI() }},
		{3, func(w *world, _ *script) { w.serveAnswer() }},
		{4, func(w *world, s *script) { w.elapse(time.Duration(s.n(256)) * 10 * time.Microsecond) }},
		{3, func(w *world, s *script) { w.elapse(time.Duration(s.n(256)) * 100 * time.Microsecond) }},
		{1, func(w *world, s *script) { w.elapse(time.Duration(s.n(256)) * 2 * time.Millisecond) }},
		{2, others},
		{2, catchUp},
		{3, smoothly},
		{1, disturb},
	} {
		for range s.weight {
			out = append(out, s.step)
		}
	}
	return out
}

// acknowledge has workers send a burst, as the session reads it at once.
func acknowledge(w *world, s *script) {
	n, order, doubles := 1+s.n(60), s.n(4), s.n(4)
	for i := 0; i < n && len(w.hands) > 0; i++ {
		at := 0
		if order == 0 {
			at = s.n(len(w.hands))
		}
		w.send(w.take(at), []string{"", "+ACK", "+OK"}[i%3], "", doubles == 0 && s.n(2) == 0, true)
	}
	w.pump()
}

// oddly has a worker say something else than that it is done.
func oddly(w *world, s *script) {
	if len(w.hands) == 0 {
		return
	}
	m := w.take(s.n(len(w.hands)))
	payload, header := "", ""
	switch s.n(8) {
	case 0, 1:
		payload = "-NAK"
	case 2:
		payload = `-NAK {"delay": 1000}`
	case 3:
		payload = "+TERM why"
	case 4:
		payload = "+NXT 1"
	case 5:
		payload, w.hands = "+WPI", append(w.hands, m)
	case 6:
		header = "NATS/1.0\r\nA: b\r\n\r\n"
	case 7:
		return // a worker that died
	}
	w.send(m, payload, header, s.n(3) == 0, true)
	w.pump()
}

// stale has a worker say again, or late, what it said of a message of any life; or of
// one that was not delivered, as from a life before the first; or nonsense.
func stale(w *world, s *script) {
	kind := s.n(5)
	switch {
	case kind == 0:
		for i := range 1 + s.n(20) {
			w.send(message{w.delivered + uint64(1+s.n(40)+i), 0, w.born.Add(-time.Millisecond)}, "", "", s.n(4) == 0, false)
		}
	case kind == 1:
		w.sequence++
		id := strconv.Itoa(w.sequence)
		subject := []string{"S.C." + id, "S.C.1.0." + id + ".1.0", "S.C.1.99999999999999999999." + id + ".1.0", "S.C.1.x." + id, "S.C.1.3." + id, "S.C.1.3." + id + ".y.0"}[s.n(6)]
		w.pushed(&sent{subject: subject, reply: "inbox." + id, plain: true, message: message{life: w.life}})
	case len(w.history) > 0:
		for range 1 + s.n(10) {
			m := w.history[len(w.history)-1-s.n(min(len(w.history), 100))]
			w.send(m, "", "", s.n(2) == 0, true)
		}
	}
	w.pump()
}

// others are what happens to messages without acks having a part in it.
func others(w *world, s *script) {
	switch s.n(5) {
	case 0: // ack_wait ran out
		for i := range min(len(w.history), 1+s.n(10)) {
			w.redeliver(w.history[len(w.history)-1-i].seq)
		}
	case 1: // max_deliver gave one up
		if len(w.hands) > 0 {
			seq := w.hands[s.n(len(w.hands))].seq
			delete(w.pending, seq)
			w.asleep = false
		}
	case 2, 3: // somebody deletes some
		for range 1 + s.n(4) {
			w.remove(w.first + uint64(s.n(100)))
		}
	case 4: // they ran out of time
		for range s.n(20) {
			w.remove(w.first)
		}
	}
}

// catchUp has workers be done with all that was ever delivered.
func catchUp(w *world, _ *script) {
	w.settle()
	w.hands = nil
	w.expire()
	w.deliver(len(w.again))
	for len(w.hands) > 0 {
		w.send(w.take(0), "", "", false, true)
	}
	w.pump()
	w.settle()
}

// smoothly is how it mostly is: many workers, all of them fast.
func smoothly(w *world, s *script) {
	for n := range 2 + s.n(4) {
		if !w.gone {
			w.publish(20)
		}
		w.deliver(40)
		for i := 0; i < 40 && len(w.hands) > 0; i++ {
			w.send(w.take(0), "", "", n == 3, true)
		}
		w.pump()
		w.elapse(time.Millisecond)
		w.settle()
	}
}

// disturb is what goes wrong.
func disturb(w *world, s *script) {
	switch kind := s.n(8); {
	case kind < 3:
		w.mode = apiMode(s.n(int(modesN)))
	case kind == 3:
		w.elapse(patience + time.Duration(s.n(200))*10*time.Millisecond)
	case !w.replaceable():
	case kind == 4:
		w.gone = true
	case kind == 5:
		w.lost = true
	case kind == 6:
		w.recreateConsumer()
	case kind == 7:
		w.recreate()
	}
	if w.replaceable() && s.n(2) == 0 {
		if w.gone {
			w.recreate()
		}
		if w.lost {
			w.recreateConsumer()
		}
	}
}

// play has happen what the script says.
func play(t testing.TB, data []byte) *world {
	t.Helper()
	s := script(data)
	filter := []string{"", "q.>"}[s.n(2)]
	w := newWorld(t, []int{1000, 1000, 200, 100, 64, 63, 5, -1}[s.n(8)], filter)
	all := steps()
	for len(s) > 0 {
		all[s.n(len(all))](w, &s)
	}
	w.finish()
	return w
}

func FuzzAcks(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seeded(seed, 1000))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 3000 {
			t.Skip("too long")
		}
		play(t, data)
	})
}

func seeded(seed uint64, n int) []byte {
	r := rand.New(rand.NewPCG(seed, 0))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func TestAcksRemoveOnlyWhatWasAcknowledged(t *testing.T) {
	var purges, grouped, alone uint64
	for seed := range uint64(100) {
		ok := t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			s := play(t, seeded(seed, 1200)).acks.stats
			purges, grouped, alone = purges+s.Purges.Load(), grouped+s.AcksGrouped.Load(), alone+s.AcksAlone.Load()
		})
		if !ok {
			return
		}
	}
	t.Logf("%d acknowledgements in %d purges, %d alone", grouped, purges, alone)
	if grouped*5 < alone {
		t.Errorf("got %d acknowledgements in purges and %d alone, want a fifth to be removed together", grouped, alone)
	}
}
