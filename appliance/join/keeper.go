// SPDX-License-Identifier: Apache-2.0

package join

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"sync"
	"time"
)

// most bounds the exchanges at a time: three nodes join, not a thousand.
const most = 16

// Keeper answers those who want to join, from Serve to Close.
type Keeper struct {
	secret   []byte
	answer   func(Request) Answer
	inviter  Inviter // may be nil
	refused  refusedTokens
	log      *slog.Logger
	config   *tls.Config
	listener net.Listener

	serving sync.WaitGroup
	places  chan struct{}
	closing chan struct{}
	mu      sync.Mutex
	open    map[net.Conn]bool // nil once it is closed
}

// Serve answers on a listener, which it closes in the end. answer is called from
// several goroutines, and only for those who know the secret. i answers those with a
// token instead; it may be nil.
func Serve(l net.Listener, secret []byte, answer func(Request) Answer, i Inviter, log *slog.Logger) (*Keeper, error) {
	cert, err := certificate()
	if err != nil {
		return nil, fmt.Errorf("make the certificate of %s: %w", l.Addr(), err)
	}
	k := &Keeper{
		secret: secret, answer: answer, inviter: i, log: log, listener: l,
		places: make(chan struct{}, most), closing: make(chan struct{}), open: map[net.Conn]bool{},
	}
	k.config = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS13, GetConfigForClient: k.configFor}
	k.serving.Go(k.accept)
	return k, nil
}

// Close ends all exchanges and waits for them.
func (k *Keeper) Close() error {
	close(k.closing)
	err := k.listener.Close()
	k.mu.Lock()
	for c := range k.open {
		_ = c.Close() // its goroutine sees it
	}
	k.open = nil
	k.mu.Unlock()
	k.serving.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

func (k *Keeper) accept() {
	for {
		conn, err := k.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			// Out of descriptors, most likely: the next one may work.
			select {
			case <-k.closing:
				return
			case <-time.After(100 * time.Millisecond):
			}
			continue
		}
		select {
		case k.places <- struct{}{}:
		default:
			_ = conn.Close()
			continue
		}
		k.serving.Go(func() {
			defer func() { <-k.places }()
			k.serve(conn)
		})
	}
}

func (k *Keeper) serve(conn net.Conn) {
	k.mu.Lock()
	if k.open == nil {
		k.mu.Unlock()
		_ = conn.Close()
		return
	}
	k.open[conn] = true
	k.mu.Unlock()
	defer func() {
		k.mu.Lock()
		delete(k.open, conn)
		k.mu.Unlock()
		_ = conn.Close()
	}()
	// Whoever only knocks, a scan of ports, is no news.
	if err := k.exchange(conn); errors.Is(err, errSecret) {
		k.log.Warn("a node was turned away: it does not know the cluster's secret", "address", conn.RemoteAddr().String(),
			"fix", "write the same secret into the file of cluster.secret on every node")
	}
}

func (k *Keeper) exchange(conn net.Conn) error {
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	c := tls.Server(conn, k.config)
	if err := c.Handshake(); err != nil {
		return err
	}
	if c.ConnectionState().NegotiatedProtocol == tokenProtocol {
		return k.redeem(c)
	}
	said := make([]byte, len(magic))
	if _, err := io.ReadFull(c, said); err != nil || string(said) != magic {
		return errors.Join(err, errors.New("it speaks something else"))
	}
	if err := check(c, k.secret, joinerSays, c.ConnectionState()); err != nil {
		return err
	}
	mine, err := proof(k.secret, keeperSays, c.ConnectionState())
	if err != nil {
		return err
	}
	if _, err := c.Write(mine); err != nil {
		return err
	}
	var req Request
	if err := receive(c, &req); err != nil {
		return err
	}
	if err := send(c, k.answer(req)); err != nil {
		return err
	}
	return c.Close()
}

// certificate is one that lives as long as the process. Nobody checks it: the proofs
// do what a certificate is for.
func certificate() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(1)}, &x509.Certificate{SerialNumber: big.NewInt(1)}, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}
