// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"io"
	"os"
)

// ahead reads files one after the other, each while the one before is looked at, into
// memory that is used again.
type ahead struct {
	read chan content
	free chan []byte
	quit chan struct{}
}

type content struct {
	buf []byte
	err error
}

// readAhead begins to read. It ends with the last file, with an error or with stop.
func readAhead(numbers []int, path func(number int) string) *ahead {
	a := &ahead{read: make(chan content), free: make(chan []byte, 2), quit: make(chan struct{})}
	a.free <- nil
	a.free <- nil
	go func() {
		defer close(a.read)
		for _, n := range numbers {
			var b content
			select {
			case b.buf = <-a.free:
			case <-a.quit:
				return
			}
			b.buf, b.err = readInto(b.buf, path(n))
			select {
			case a.read <- b:
			case <-a.quit:
				return
			}
			if b.err != nil {
				return
			}
		}
	}()
	return a
}

// next returns the content of the next file.
func (a *ahead) next() ([]byte, error) {
	b, ok := <-a.read
	if !ok {
		return nil, io.ErrUnexpectedEOF
	}
	return b.buf, b.err
}

// giveBack is for memory that nobody looks at any more, or nil for other memory: for
// each that next has returned.
func (a *ahead) giveBack(buf []byte) { a.free <- buf }

// stop ends the reading and waits for its end.
func (a *ahead) stop() {
	close(a.quit)
	for range a.read {
	}
}

// readInto reads a whole file, into buf when there is room.
func readInto(buf []byte, path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	size := int(info.Size())
	if cap(buf) < size {
		buf = make([]byte, size)
	}
	buf = buf[:size]
	_, err = io.ReadFull(f, buf)
	return buf, err
}
