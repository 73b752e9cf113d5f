// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
)

const (
	// crowd is how many publishers are at work on the stream of a script.
	crowd = 32
	// absence is how long an answer that must not come is waited for.
	absence = 60 * time.Millisecond
	// due is how long answers are waited for, some of which the server does not give.
	due = 10 * time.Second
	// fillers stand between two steps of a script that is sent in one go.
	fillers = 12
)

// behaviour is a stream and a script of publishes to it. In texts S is the stream and
// s the first token of its subjects, both in braces.
type behaviour struct {
	name   string
	config string
	steps  []step
	// exact scripts depend on the place in the stream: nobody else may write to it.
	exact bool
	// filler is the header that the stream wants of every message.
	filler string
	// unseen scripts have no core subscriber: one is enough for the server to say
	// nothing about a subject that no stream keeps.
	unseen bool
	// hears says that the script is about a core subscriber.
	hears bool
	// strewn scripts write beside the stream, too: what a subscriber of both sees keeps
	// its order on each subject only.
	strewn bool
	// weighed scripts count bytes: a message takes more of them in a group.
	weighed bool
	// sparse scripts have fillers at the ends only.
	sparse bool
	// ungrouped says why no message of the crowd need come in a group.
	ungrouped string
	// refused says that the file may not ask for groups, either.
	refused bool
}

// step is a message, or something done to the stream when all before it is answered.
type step struct {
	to, header, data, reply string
	silent                  bool
	// want is the kind of the answer; none and kept for none, any for one at least.
	want string
	do   func(nc *nats.Conn, stream string) error
}

func pub(to, want string) step             { return step{to: to, want: want, data: "data of " + to} }
func (s step) with(header string) step     { s.header = header; return s }
func (s step) body(data string) step       { s.data = data; return s }
func (s step) replyEnding(end string) step { s.reply = end; return s }
func (s step) noReply(kept bool) step {
	s.silent, s.want = true, map[bool]string{true: "kept", false: "none"}[kept]
	return s
}
func api(verb string, request any) step {
	return step{do: func(nc *nats.Conn, stream string) error {
		var ignored json.RawMessage
		return call(nc, verb+"."+stream, request, &ignored)
	}}
}

// stores is how many messages the stream has more after the step.
func (s step) stores() uint64 {
	if s.want == "ok" || s.want == "kept" {
		return 1
	}
	n, _ := strconv.ParseUint(strings.TrimPrefix(s.want, "ok*"), 10, 64)
	if !strings.HasPrefix(s.want, "ok*") {
		return 0
	}
	return n
}

// manner is how a script is played.
type manner string

const (
	alone manner = "alone" // one step after the other, and a core subscriber
	burst manner = "burst" // everything at once, with fillers in between
	heard manner = "heard" // the same, and a core subscriber
	among manner = "among" // one step after the other, while a crowd publishes
)

// manners are those of a script. A core subscriber keeps messages out of groups, so it
// is not always there. All manners are for longer runs: they take a stream each.
func (b behaviour) manners(i int) []manner {
	switch {
	case b.weighed:
		return []manner{alone}
	case b.hears:
		return []manner{alone, heard}
	case b.exact:
		return []manner{alone, burst}
	case os.Getenv(testForEnv) != "":
		return []manner{alone, burst, heard, among}
	case i%4 == 0:
		return []manner{heard, burst, among}
	}
	return []manner{burst, among}
}

func (m manner) inOneGo() bool { return m == burst || m == heard }

func (b behaviour) watched(m manner) bool { return (m == alone || m == heard) && !b.unseen }

func (m manner) stream(i int) string {
	return fmt.Sprintf("T%02d%s", i, strings.ToUpper(string(m[:2])))
}

// played is what came of a script.
type played struct {
	Answers []string
	Fillers []string
	Stored  []string
	State   string
	Seen    []string // by a core subscriber
}

// player plays one script on one side.
type player struct {
	side   *side
	b      behaviour
	how    manner
	stream string
	nc     *nats.Conn
	wire   *wire
	mu     sync.Mutex
	got    map[string][]*nats.Msg // by the number of the message
	sent   int
	waits  []string // numbers of messages that get an answer
	last   uint64   // of the stream, by the wants
	own    uint64   // last one of the script, by the wants or by the answer
}

func (p *player) fill(text string) string {
	return strings.NewReplacer("{S}", p.stream, "{s}", strings.ToLower(p.stream), "{last}", strconv.FormatUint(p.last, 10),
		"{own}", strconv.FormatUint(p.own, 10)).Replace(text)
}

func (p *player) subject(to string) string {
	if abs, ok := strings.CutPrefix(to, "!"); ok {
		return p.fill(abs)
	}
	return strings.ToLower(p.stream) + "." + to
}

// send publishes a step and returns its number.
func (p *player) send(s step) string {
	number := strconv.Itoa(p.sent)
	p.sent++
	reply := ""
	if !s.silent {
		reply = "_INBOX.script." + p.stream + "." + number + p.fill(s.reply)
	}
	if _, err := p.wire.Write(publication(p.subject(s.to), reply, p.fill(s.header), p.fill(s.data))); err != nil {
		return number
	}
	if !s.silent && s.want != "none" && s.want != "maybe" {
		p.waits = append(p.waits, number)
	}
	return number
}

// settle waits for the answers that are due.
func (p *player) settle() {
	_ = waitFor(due, func() error {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, n := range p.waits {
			if len(p.got[n]) == 0 {
				return errStill
			}
		}
		return nil
	})
	p.waits = nil
}

func (p *player) crowdIn() []string {
	var numbers []string
	for i := range fillers {
		s := pub("fill."+strconv.Itoa(i%3), "ok").with(p.b.filler)
		if strings.Contains(p.b.config, "no_ack: true") {
			s.want = "none"
		}
		numbers = append(numbers, p.send(s))
	}
	p.last += fillers
	return numbers
}

// play returns the numbers of steps and of fillers.
func (p *player) play() (steps, between []string, err error) {
	for _, s := range p.b.steps {
		if s.do != nil {
			p.settle()
			if err := s.do(p.nc, p.stream); err != nil {
				return nil, nil, err
			}
			continue
		}
		if p.how.inOneGo() && (len(steps) == 0 || !p.b.sparse) {
			between = append(between, p.crowdIn()...)
		}
		n := p.send(s)
		steps = append(steps, n)
		p.last += s.stores()
		if s.stores() > 0 {
			p.own = p.last
		}
		if !p.how.inOneGo() {
			p.settle()
			p.mu.Lock()
			if len(p.got[n]) > 0 {
				if a, err := readAnswer(p.got[n][0]); err == nil && a.Error == nil && a.Seq > 0 {
					p.own = a.Seq
				}
			}
			p.mu.Unlock()
		}
	}
	if p.how.inOneGo() {
		between = append(between, p.crowdIn()...)
	}
	p.settle()
	return steps, between, nil
}

// run plays the script and looks at what came of it.
func (p *player) run(t *testing.T, admin, crowdConn *nats.Conn) (out played, grouped int, err error) {
	p.nc, p.wire = p.side.connect(t, "admin")
	defer p.nc.Close()
	p.got = map[string][]*nats.Msg{}
	if _, err := p.nc.Subscribe("_INBOX.script."+p.stream+".>", func(m *nats.Msg) {
		p.mu.Lock()
		defer p.mu.Unlock()
		n := strings.Split(m.Subject, ".")[3]
		p.got[n] = append(p.got[n], m)
	}); err != nil {
		return out, 0, err
	}
	seen := make(chan *nats.Msg, 64<<10)
	if p.b.watched(p.how) {
		sub, err := admin.ChanSubscribe(strings.ToLower(p.stream)+".>", seen)
		if err != nil {
			return out, 0, err
		}
		defer func() { _ = sub.Unsubscribe() }()
		if err := admin.Flush(); err != nil {
			return out, 0, err
		}
	}
	if err := p.nc.Flush(); err != nil {
		return out, 0, err
	}
	steps, between, err := p.withCrowd(crowdConn)
	if err != nil {
		return out, 0, err
	}
	p.end(admin)
	if p.b.watched(p.how) {
		out.Seen = p.look(seen)
	}
	if p.b.strewn {
		slices.SortStableFunc(out.Seen, func(a, b string) int { return strings.Compare(strings.Fields(a)[0], strings.Fields(b)[0]) })
	}
	<-time.After(absence)
	out.Answers, out.Fillers = p.answers(steps), p.answers(between)
	p.wanted(t, steps)
	all, state, err := stored(admin, p.stream)
	if err != nil {
		return out, 0, err
	}
	for _, w := range all {
		if w.grouped() {
			grouped++
		}
		if p.how != among {
			out.Stored = append(out.Stored, fmt.Sprintf("%d %s", w.Seq, w))
		} else if !isFiller(w.Subject) {
			out.Stored = append(out.Stored, p.masked(w.String()))
		}
	}
	if state != nil && p.how != among {
		out.State = fmt.Sprintf("messages %d, first %d, last %d, deleted %d, subjects %d", state.Msgs, state.FirstSeq, state.LastSeq, state.NumDeleted, state.NumSubjects)
	}
	return out, grouped, nil
}

// end publishes the message that ends every script, and waits until the stream has got
// it, and with it all that came before.
func (p *player) end(admin *nats.Conn) {
	number := p.send(step{to: "fill.end", header: p.b.filler, want: "none"})
	_ = waitFor(due, func() error {
		p.mu.Lock()
		answered := len(p.got[number]) > 0
		p.mu.Unlock()
		if answered {
			return nil
		}
		var got struct {
			Message *written `json:"message"`
		}
		err := call(admin, "STREAM.MSG.GET."+p.stream, map[string]string{"last_by_subj": p.subject("fill.end")}, &got)
		if err != nil || got.Message == nil {
			return errStill
		}
		return nil
	})
}

func isFiller(subject string) bool {
	parts := strings.SplitN(subject, ".", 3)
	return len(parts) > 1 && parts[1] == "fill"
}

// withCrowd plays the script while others publish to the stream, if it is to be so.
func (p *player) withCrowd(nc *nats.Conn) (steps, between []string, err error) {
	if p.how != among {
		return p.play()
	}
	stop := make(chan struct{})
	var all, begun sync.WaitGroup
	begun.Add(crowd)
	for i := range crowd {
		all.Go(func() {
			header, _ := nats.DecodeHeadersMsg([]byte("NATS/1.0\r\n" + p.b.filler + "\r\n\r\n"))
			for n := 0; ; n++ {
				if n == 2 {
					begun.Done()
				}
				select {
				case <-stop:
					if n > 4 {
						return
					}
				default:
				}
				m := &nats.Msg{Subject: p.subject(fmt.Sprintf("fill.%d", i)), Header: header, Data: []byte(strconv.Itoa(n))}
				if strings.Contains(p.b.config, "no_ack: true") {
					_ = nc.PublishMsg(m)
					_ = nc.Flush()
				} else {
					_, _ = nc.RequestMsg(m, 5*time.Second)
				}
			}
		})
	}
	begun.Wait()
	steps, between, err = p.play()
	if p.side.grouped && p.b.ungrouped == "" {
		// Whether messages go together is for the node to decide, by what it measures; on
		// a busy machine that takes a while.
		_ = waitFor(patience, func() error {
			return p.seeGroup(nc)
		})
	}
	close(stop)
	all.Wait()
	return steps, between, err
}

// seeGroup looks whether a message of the crowd came in a group just now.
func (p *player) seeGroup(nc *nats.Conn) error {
	for i := range crowd {
		var got struct {
			Message *written `json:"message"`
		}
		if err := call(nc, "STREAM.MSG.GET."+p.stream, map[string]string{"last_by_subj": p.subject(fmt.Sprintf("fill.%d", i))}, &got); err != nil {
			return err
		}
		if got.Message != nil && got.Message.grouped() {
			return nil
		}
	}
	return errStill
}

// look returns what a core subscriber saw, up to the message that ends every script.
func (p *player) look(seen <-chan *nats.Msg) []string {
	var out []string
	timeout := time.After(5 * time.Second)
	for {
		select {
		case m := <-seen:
			if strings.HasSuffix(m.Subject, ".fill.end") {
				return out
			}
			line := fmt.Sprintf("%s %s", m.Subject, m.Reply)
			for _, k := range slices.Sorted(maps.Keys(m.Header)) {
				line += fmt.Sprintf(" %s=%q", k, m.Header[k])
			}
			out = append(out, line+" "+short(m.Data))
		case <-timeout:
			return append(out, "the end of the script did not come")
		}
	}
}

// moving is where sequences stand that depend on how much others published.
var moving = regexp.MustCompile(`(Nats-Expected-Last-[A-Za-z-]*Sequence\W+|wrong last sequence: )\d+`)

// masked is a text that can be compared although a crowd published meanwhile.
func (p *player) masked(text string) string {
	if p.how != among {
		return text
	}
	return moving.ReplaceAllString(text, "$1#")
}

func (p *player) answers(numbers []string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []string
	for i, n := range numbers {
		var texts []string
		for _, m := range p.got[n] {
			text := string(m.Data)
			var fields map[string]any
			if json.Unmarshal(m.Data, &fields) == nil {
				if _, ok := fields["seq"]; ok && p.how == among {
					fields["seq"] = "#"
				}
				b, _ := json.Marshal(fields)
				text = string(b)
			}
			texts = append(texts, fmt.Sprintf("%v %s", m.Header, p.masked(text)))
		}
		slices.Sort(texts) // a service beside the stream may be faster than the stream, or not
		out = append(out, fmt.Sprintf("%d: %s", i, strings.Join(texts, " ")))
	}
	return out
}

// wanted compares the answers with what the table says.
func (p *player) wanted(t *testing.T, numbers []string) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	i := 0
	for _, s := range p.b.steps {
		if s.do != nil {
			continue
		}
		var kinds []string
		for _, m := range p.got[numbers[i]] {
			a, err := readAnswer(m)
			if err != nil {
				kinds = append(kinds, short(m.Data))
				continue
			}
			kinds = append(kinds, a.kind())
		}
		i++
		want := s.want
		if s.want == "none" || s.want == "kept" {
			want = ""
		}
		if got := strings.Join(kinds, " "); got != want && s.want != "any" && s.want != "maybe" {
			t.Errorf("%s, %s: got %q for step %d (%s), want %q", p.side.name, p.how, got, i, s.to, want)
		}
	}
}

func TestTransparencyOfPublishes(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	rows := behaviours()
	var text strings.Builder
	text.WriteString("    users: {admin: {inbox: shared}}\n    streams:\n")
	for i, b := range rows {
		for _, how := range b.manners(i) {
			name := how.stream(i)
			config := ", " + b.config
			for key, value := range map[string]string{"subjects": `["{s}.>"]`, "max_bytes": "4MiB"} {
				if !strings.Contains(config, ", "+key+":") {
					config += ", " + key + ": " + value
				}
			}
			config = strings.NewReplacer("{S}", name, "{s}", strings.ToLower(name)).Replace(strings.Trim(config, ", "))
			group := "GROUP"
			if b.refused {
				group = "AUTO"
			}
			fmt.Fprintf(&text, "      %s: {group_commit: %s, %s}\n", name, group, config)
		}
	}
	off, on := twoSides(t, text.String())
	conns := map[*side][2]*nats.Conn{}
	for _, s := range []*side{off, on} {
		looker, _ := s.connect(t, "admin")
		many, _ := s.connect(t, "admin")
		conns[s] = [2]*nats.Conn{looker, many}
	}
	for i, b := range rows {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			for _, how := range b.manners(i) {
				compare(t, i, b, how, off, on, conns)
			}
		})
	}
}

// compare plays a script on both sides.
func compare(t *testing.T, i int, b behaviour, how manner, off, on *side, conns map[*side][2]*nats.Conn) {
	t.Helper()
	var results [2]played
	var both sync.WaitGroup
	for n, s := range []*side{off, on} {
		both.Go(func() {
			p := &player{side: s, b: b, how: how, stream: how.stream(i)}
			out, grouped, err := p.run(t, conns[s][0], conns[s][1])
			if err != nil {
				t.Errorf("%s, %s: %v", s.name, how, err)
			}
			results[n] = out
			if s.grouped && how == among && grouped == 0 && b.ungrouped == "" {
				t.Errorf("got no message in a group with %d publishers, want some", crowd)
			}
		})
	}
	both.Wait()
	if diff := cmp.Diff(results[0], results[1]); diff != "" {
		t.Errorf("%s: off (-) and on (+) differ:\n%s", how, diff)
	}
}
