package push

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/runnel-dev/runnel/store"
)

const (
	maxSending = 16               // requests to push services at once, one for each credential
	keepFor    = time.Hour        // how long a push service keeps a note for a browser that is offline
	maxWait    = 10 * time.Minute // longest wait that a push service can ask for
)

// deliver sends notes to everybody who has subscribed to them. It reports false
// if there are no subscriptions. A note is skipped if the same is still being
// sent, because one of them is enough.
func (o *outbox) deliver(ctx context.Context, notes []note) bool {
	all, err := o.cfg.Store.PushSubscriptions(ctx)
	if err != nil {
		o.cfg.Logger.Warn("subscriptions could not be read, so nobody was notified", "error", err)
		return true
	}
	for _, p := range all {
		for _, n := range notes {
			if !wants(p, n) {
				continue
			}
			if id := (noteID{p.Endpoint, n.kind}); o.begin(id) {
				o.work.Go(func() {
					defer o.end(id)
					o.send(ctx, p.Credential, id)
				})
			}
		}
	}
	return len(all) > 0
}

// begin marks a note as being sent. It returns false if it already is.
func (o *outbox) begin(id noteID) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	was := o.busy[id]
	o.busy[id] = true
	return !was
}

func (o *outbox) end(id noteID) {
	o.mu.Lock()
	delete(o.busy, id)
	o.mu.Unlock()
	o.ended(id)
}

func wants(p store.PushSubscription, n note) bool {
	return slices.Contains(p.Kinds, string(n.kind)) && (p.Project == "" || p.Project == n.project)
}

// send sends a note, with retries. Before each attempt it checks that the
// subscription and its credential are still valid.
func (o *outbox) send(ctx context.Context, credential string, id noteID) {
	for attempt := 0; ; attempt++ {
		leave, err := o.own.Enter(ctx, credential)
		if err != nil {
			return
		}
		sub, ok := o.current(ctx, credential, id)
		if !ok {
			leave()
			return
		}
		again, err := o.attempt(ctx, sub, id.kind)
		leave()
		log := o.cfg.Logger.With("kind", string(id.kind), "service", host(sub.Endpoint), "credential", credential)
		switch {
		case err == nil:
			log.Debug("sent a note")
			return
		case ctx.Err() != nil:
			return
		case errors.Is(err, errGone):
			o.forget(ctx, credential, id, log, err)
			return
		case again < 0 || attempt >= len(o.cfg.Retries):
			log.Warn("a note could not be sent", "error", err, "attempts", attempt+1)
			return
		}
		if !sleep(ctx, max(again, o.cfg.Retries[attempt])) {
			return
		}
	}
}

// current returns the subscription to which a note goes, unless it or its
// credential has ended.
func (o *outbox) current(ctx context.Context, credential string, id noteID) (sub Subscription, ok bool) {
	all, err := o.cfg.Store.PushSubscriptions(ctx)
	if err != nil {
		o.cfg.Logger.Warn("subscriptions could not be read, so a note was not sent", "error", err)
		return sub, false
	}
	i := slices.IndexFunc(all, func(p store.PushSubscription) bool {
		return p.Credential == credential && p.Endpoint == id.endpoint && (p.ExpiresAt.IsZero() || time.Now().Before(p.ExpiresAt))
	})
	if i < 0 {
		return sub, false
	}
	plain, err := o.cfg.Sealer.Open(all[i].Sealed)
	if err == nil {
		err = json.Unmarshal(plain, &sub)
	}
	if err != nil {
		o.cfg.Logger.Warn("a subscription cannot be decrypted", "credential", credential, "error", err)
		return sub, false
	}
	return sub, true
}

func (o *outbox) forget(ctx context.Context, credential string, id noteID, log *slog.Logger, why error) {
	if _, ok := o.current(ctx, credential, id); !ok { // it was replaced meanwhile
		return
	}
	log.Info("removed a subscription, because the push service does not accept it", "error", why)
	if err := o.cfg.Store.DeletePushSubscription(ctx, credential); err != nil {
		log.Warn("a subscription could not be removed", "error", err)
	}
}

// errGone means that a push service will never accept notes of a subscription.
var errGone = errors.New("the subscription has ended")

// attempt sends a note once. On an error, again is the least time to wait
// before the next attempt, or negative if there must be none.
func (o *outbox) attempt(ctx context.Context, sub Subscription, kind NoteKind) (again time.Duration, err error) {
	select {
	case o.slots <- struct{}{}:
		defer func() { <-o.slots }()
	case <-ctx.Done():
		return -1, ctx.Err()
	}
	key, err := o.signer(ctx)
	if err != nil {
		return 0, err
	}
	plain, err := encoded(kind)
	if err != nil {
		return -1, err
	}
	body, err := encryptFor(plain, sub)
	if err != nil {
		return -1, err
	}
	proof, err := authorization(key, sub.Endpoint, time.Now())
	if err != nil {
		return -1, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, sub.Endpoint, bytes.NewReader(body))
	if err != nil {
		return -1, err
	}
	for name, value := range map[string]string{
		"Authorization": proof, "Content-Encoding": coding, "Content-Type": "application/octet-stream",
		"TTL": strconv.Itoa(int(keepFor / time.Second)), "Urgency": "high", "Topic": topic(sub, kind), "User-Agent": "runnel",
	} {
		req.Header.Set(name, value)
	}
	res, err := o.client.Do(req)
	if err != nil {
		return 0, withoutURL(err)
	}
	defer res.Body.Close() // unread, so the connection ends if the body is long
	return judge(res)
}

// judge returns what an answer of a push service means, as attempt does.
func judge(res *http.Response) (again time.Duration, err error) {
	answered := fmt.Errorf("the push service answered with status %d", res.StatusCode)
	switch code := res.StatusCode; {
	case code >= 200 && code < 300:
		return 0, nil
	case code == http.StatusNotFound || code == http.StatusGone:
		return -1, fmt.Errorf("%w: %w", errGone, answered)
	case code == http.StatusUnauthorized || code == http.StatusForbidden: // it belongs to another key of a server
		return -1, fmt.Errorf("%w: %w", errGone, answered)
	case code == http.StatusTooManyRequests || code >= 500:
		seconds, _ := strconv.Atoi(res.Header.Get("Retry-After"))
		return min(time.Duration(max(0, min(seconds, 1<<20)))*time.Second, maxWait), answered
	}
	return -1, answered
}

// withoutURL removes the address at the push service from an error of the
// client. The address is a secret of the browser.
func withoutURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

func host(endpoint string) string {
	u, err := url.Parse(endpoint)
	if err != nil {
		return ""
	}
	return u.Hostname()
}
