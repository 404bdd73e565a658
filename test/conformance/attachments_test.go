//go:build unix

package conformance

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// The table attachments checks which files a prompt may attach, and how the
// server rejects others.
var _ = register(60, func() table {
	tab := table{
		name: "attachments", title: "Attachments", file: "attachments_test.go",
		intro: "Which files a prompt may have. A file fails for the first check that it does not pass; where a row names two faults, the first of them is the one that is reported. " +
			"The reason is that of `attachmentErrors`, to the letter.",
		head: []string{"attachment", "condition", "result"},
	}
	a := new(attached)
	tab.setup = a.setup
	a.orderRows(&tab)
	a.limitRows(&tab)
	a.typeRows(&tab)
	a.uploadRows(&tab)
	a.warningRows(&tab)
	return tab
})

// attached is shared by the rows of the table.
type attached struct{ server }

func (a *attached) setup(t *testing.T) {
	mine, _ := agentFile(t, "answers")
	a.configure(t, "agents:\n  mine: {protocol: acp, command: ["+mine+"]}\n")
	a.Args = append(a.Args, "--reattach-window", "-1s") // agents stop with the server
	a.start(t)
}

// attach sends a prompt with attachments to a new session.
func (a *attached) attach(t *testing.T, content string, refs ...any) (session string, answer answer) {
	t.Helper()
	session = a.session(t, nil)
	return session, a.post(t, "/api/session/"+session+"/send", object{"content": content, "attachments": refs})
}

// refused checks that a single attachment is rejected for the reason.
func (a *attached) refused(t *testing.T, ref any, reason string) {
	t.Helper()
	_, got := a.attach(t, "", ref)
	p := got.fails(t, http.StatusBadRequest, "ATTACHMENT_FAILURE")
	equal(t, "reason", at(p.Details, "attachmentErrors", 0, "reason"), reason)
}

// accepted checks that all attachments are accepted. It returns their
// descriptions in the user's message in the log.
func (a *attached) accepted(t *testing.T, refs ...any) []any {
	t.Helper()
	session, got := a.attach(t, "{\"steps\":[]}", refs...)
	body := got.ok(t, http.StatusAccepted)
	equal(t, "warnings", body["warnings"], nil)
	message := frames(a.turn(t, session, body["turnId"].(string))).find("item_done").payload()
	list, _ := at(message, "finalItem", "attachments").([]any)
	return list
}

// sparse writes a sparse PDF of the given size.
func sparse(t *testing.T, dir, name string, size int64) string {
	t.Helper()
	path := write(t, dir, name, "%PDF-1.7\n")
	if err := os.Truncate(path, size); err != nil {
		t.Fatal(err)
	}
	return path
}

func (a *attached) orderRows(tab *table) {
	const (
		notAbsolute = "the path is not absolute"
		outside     = "it lies outside the folders that may be read"
		extension   = "the extension is not one of .png .jpg .jpeg .gif .webp .pdf .txt .md .csv"
		missing     = "it does not exist or cannot be read"
		link        = "it is a symbolic link or lies behind one"
		notRegular  = "it is not a regular file"
	)
	for _, r := range []struct {
		attachment, condition, reason string
		path                          func(t *testing.T) string
	}{
		{"a relative path", "another extension", notAbsolute, func(*testing.T) string { return "notes.exe" }},
		{"a path outside the project and the uploads", "another extension", outside, func(*testing.T) string { return "/etc/passwd" }},
		{"a path that leaves the project with ..", "the file exists", outside, func(t *testing.T) string { return a.project + "/../x.txt" }},
		{"another extension", "the file does not exist", extension, func(*testing.T) string { return a.project + "/none.exe" }},
		{"no extension", "the file exists", extension, func(t *testing.T) string { return write(t, a.project, "plain", "x") }},
		{"a file that does not exist", "", missing, func(*testing.T) string { return a.project + "/none.txt" }},
		{"a symbolic link", "it leads to a folder", link, func(t *testing.T) string {
			path := filepath.Join(a.project, "folder-link.txt")
			symlink(t, "/etc", path)
			return path
		}},
		{"a symbolic link", "it leads to a file of the project", link, func(t *testing.T) string {
			path := filepath.Join(a.project, "link.txt")
			symlink(t, write(t, a.project, "target.txt", "x"), path)
			return path
		}},
		{"a file behind a symbolic link", "the link leads to a folder of the project", link, func(t *testing.T) string {
			write(t, a.project, "real/a.txt", "x")
			symlink(t, filepath.Join(a.project, "real"), filepath.Join(a.project, "linked"))
			return filepath.Join(a.project, "linked", "a.txt")
		}},
		{"a folder", "its name ends with .txt", notRegular, func(t *testing.T) string {
			write(t, a.project, "folder.txt/x", "x")
			return filepath.Join(a.project, "folder.txt")
		}},
		{"a pipe", "nobody writes to it", notRegular, func(t *testing.T) string {
			path := filepath.Join(a.project, "pipe.txt")
			if err := unix.Mkfifo(path, 0o600); err != nil {
				t.Fatal(err)
			}
			return path
		}},
		{"a file with a second name", "a hard link", "it has more than one name (hard links), one of which may be elsewhere", func(t *testing.T) string {
			path := filepath.Join(a.project, "second.txt")
			if err := os.Link(write(t, a.project, "first.txt", "x"), path); err != nil {
				t.Fatal(err)
			}
			return path
		}},
		{"a file of 10 MiB and one byte", "its content is no text", "it is larger than 10 MiB", func(t *testing.T) string { return sparse(t, a.project, "large.txt", 10<<20+1) }},
		{"a file whose content is another type's", "a PDF as .txt", "its content is not UTF-8 text", func(t *testing.T) string { return sparse(t, a.project, "pdf.txt", 100) }},
	} {
		condition := r.condition
		if condition == "" {
			condition = "no other fault"
		}
		tab.add(r.attachment, condition, "refused: "+r.reason, func(t *testing.T) { a.refused(t, r.path(t), r.reason) })
	}
	tab.add("neither path nor uploadId", "any", "400 INVALID_REQUEST for the prompt", func(t *testing.T) {
		for _, ref := range []any{object{}, object{"path": "/a.txt", "uploadId": "x"}, 1} {
			_, got := a.attach(t, "x", ref)
			got.fails(t, http.StatusBadRequest, "INVALID_REQUEST")
		}
	})
	tab.link("a file that is swapped for a link meanwhile", "any moment", "refused, or read as it was checked", "attach.TestSwappingLinksNeverRevealsAFileOutside")
	tab.link("a device or a socket", "any", "refused, and never opened", "attach.TestDevicesAreNeverRead")
	tab.link("an attachment that the agent does not take", "the prompt has text", "left out with a warning", "httpapi.TestAttachmentThatTheAgentDoesNotTakeIsDropped")
}

func (a *attached) limitRows(tab *table) {
	const over = "with it the attachments would be larger than 18 MiB in total"
	tab.add("a file of exactly 10 MiB", "alone", "accepted", func(t *testing.T) {
		equal(t, "number", len(a.accepted(t, sparse(t, a.project, "ten.pdf", 10<<20))), 1)
	})
	tab.add("files of exactly 18 MiB in total", "10 and 8 MiB", "both are accepted", func(t *testing.T) {
		equal(t, "number", len(a.accepted(t, sparse(t, a.project, "10.pdf", 10<<20), sparse(t, a.project, "8.pdf", 8<<20))), 2)
	})
	tab.add("files of 18 MiB and one byte in total", "and a smaller one after them", "the one that exceeds the total is refused, the smaller one is accepted: "+over, func(t *testing.T) {
		session, got := a.attach(t, "{\"steps\":[]}", sparse(t, a.project, "first.pdf", 10<<20), sparse(t, a.project, "over.pdf", 8<<20+1), write(t, a.project, "small.txt", "x"))
		body := got.ok(t, http.StatusAccepted)
		equal(t, "warnings", body["warnings"], []string{warning(1, "over.pdf: "+over)})
		message := frames(a.turn(t, session, body["turnId"].(string))).find("item_done").payload()
		equal(t, "names", []any{at(message, "finalItem", "attachments", 0, "name"), at(message, "finalItem", "attachments", 1, "name")}, []any{"first.pdf", "small.txt"})
	})
	tab.add("a file beyond the total", "its content is no PDF", "refused: "+over, func(t *testing.T) {
		other := write(t, a.project, "lie.pdf", strings.Repeat("x", 100))
		_, got := a.attach(t, "{\"steps\":[]}", sparse(t, a.project, "a.pdf", 10<<20), sparse(t, a.project, "b.pdf", 8<<20), other)
		equal(t, "warnings", got.ok(t, http.StatusAccepted)["warnings"], []string{warning(1, "lie.pdf: "+over)})
	})
	tab.add("an empty file", "alone", "refused: it is empty", func(t *testing.T) { a.refused(t, write(t, a.project, "empty.txt", ""), "it is empty") })
	tab.link("an image of more than 8000 × 8000 pixels", "any size in bytes", "refused, before it is unpacked", "attach.TestHugeImagesAreRefusedWithoutDecoding")
}

// samples returns the content of a valid file for each extension.
func samples(t *testing.T) map[string][]byte {
	t.Helper()
	picture := image.NewPaletted(image.Rect(0, 0, 1, 1), color.Palette{color.Black, color.White})
	encoded := func(encode func(b *bytes.Buffer) error) []byte {
		var b bytes.Buffer
		if err := encode(&b); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	jpg := encoded(func(b *bytes.Buffer) error { return jpeg.Encode(b, picture, nil) })
	return map[string][]byte{
		".png": encoded(func(b *bytes.Buffer) error { return png.Encode(b, picture) }), ".jpg": jpg, ".jpeg": jpg,
		".gif":  encoded(func(b *bytes.Buffer) error { return gif.Encode(b, picture, nil) }),
		".webp": []byte("RIFF\x16\x00\x00\x00WEBPVP8L\x0a\x00\x00\x00\x2f\x00\x00\x00\x00\x00\x00\x00\x00\x00"),
		".pdf":  []byte("%PDF-1.7\n"), ".txt": []byte("text"), ".md": []byte("# text"), ".csv": []byte("a,b\n"),
	}
}

func (a *attached) typeRows(tab *table) {
	for _, r := range [][2]string{
		{".png", "image/png"}, {".jpg", "image/jpeg"}, {".jpeg", "image/jpeg"}, {".gif", "image/gif"}, {".webp", "image/webp"},
		{".pdf", "application/pdf"}, {".txt", "text/plain"}, {".md", "text/markdown"}, {".csv", "text/csv"},
	} {
		ext, media := r[0], r[1]
		tab.add("a file with "+ext, "its content is of that type", "accepted as "+media, func(t *testing.T) {
			list := a.accepted(t, write(t, a.project, "sample"+ext, string(samples(t)[ext])))
			equal(t, "mediaType", at(list, 0, "mediaType"), media)
		})
		if media == "text/markdown" || media == "text/csv" || media == "text/plain" {
			continue // any text is valid for these types
		}
		tab.add("a file with "+ext, "its content is text", "refused", func(t *testing.T) {
			_, got := a.attach(t, "", write(t, a.project, "lie"+ext, "text"))
			p := got.fails(t, http.StatusBadRequest, "ATTACHMENT_FAILURE")
			if reason := fmt.Sprint(at(p.Details, "attachmentErrors", 0, "reason")); !strings.HasPrefix(reason, "its content is not ") {
				t.Errorf("the reason is %q", reason)
			}
		})
	}
	tab.add("a file with .TXT", "its content is text", "accepted as text/plain", func(t *testing.T) {
		equal(t, "mediaType", at(a.accepted(t, write(t, a.project, "LOUD.TXT", "text")), 0, "mediaType"), "text/plain")
	})
	tab.add("a client's own name, type and mimeType", "they differ from the file", "are ignored", func(t *testing.T) {
		path := write(t, a.project, "labels.txt", "text")
		list := a.accepted(t, object{"path": path, "name": "x.png", "type": "image", "mimeType": "image/png"})
		equal(t, "attachment", []any{at(list, 0, "name"), at(list, 0, "mediaType")}, []any{"labels.txt", "text/plain"})
	})
	for _, r := range [][2]string{{"an image", "a base64 image block"}, {"a PDF", "a base64 document block with a title"}, {"a text, Markdown or CSV", "a text document block with a title"}} {
		tab.link(r[0], "the agent is Claude Code", r[1]+", before the prompt's text", "provider/claude.TestPromptHasOneBlockForEachPart")
	}
	tab.link("no attachments", "the agent is Claude Code", "the prompt is a plain string", "provider/claude.TestPromptHasOneBlockForEachPart")
}

// upload uploads a file and returns the answer.
func (a *attached) upload(t *testing.T, name, content string) answer {
	t.Helper()
	return a.with("Content-Type", "application/octet-stream").post(t, "/api/uploads?name="+name, content)
}

func (a *attached) uploadRows(tab *table) {
	tab.add("an upload", "by its uploadId", "accepted under its name", func(t *testing.T) {
		up := a.upload(t, "table.csv", "a,b\n").ok(t, http.StatusCreated)
		equal(t, "upload", []any{up["name"], up["mediaType"], up["size"]}, []any{"table.csv", "text/csv", 4})
		equal(t, "name", at(a.accepted(t, object{"uploadId": up["uploadId"]}), 0, "name"), "table.csv")
	})
	tab.add("an upload", "by its path", "accepted", func(t *testing.T) {
		equal(t, "number", len(a.accepted(t, a.upload(t, "a.txt", "x").ok(t, http.StatusCreated)["path"])), 1)
	})
	tab.add("an upload", "an unknown uploadId", "refused: there is no such upload; it may have expired", func(t *testing.T) {
		a.refused(t, object{"uploadId": nobody}, "there is no such upload; it may have expired")
	})
	tab.add("an upload", "the name has another extension, and the content is text", "accepted as text/plain under its name", func(t *testing.T) {
		up := a.upload(t, "main.go", "package main\n").ok(t, http.StatusCreated)
		equal(t, "upload", []any{up["name"], up["mediaType"]}, []any{"main.go", "text/plain"})
		equal(t, "name", at(a.accepted(t, object{"uploadId": up["uploadId"]}), 0, "name"), "main.go")
	})
	tab.add("an upload", "the name has another extension, and the content is not text", "400 ATTACHMENT_FAILURE for the upload", func(t *testing.T) {
		a.upload(t, "a.exe", "MZ\x00").fails(t, http.StatusBadRequest, "ATTACHMENT_FAILURE")
	})
	tab.add("an upload", "its content is another type's", "400 ATTACHMENT_FAILURE for the upload", func(t *testing.T) {
		a.upload(t, "a.png", "x").fails(t, http.StatusBadRequest, "ATTACHMENT_FAILURE")
	})
	tab.add("an upload", "the name has folders", "the file lies in the folder of the upload, under a name without folders", func(t *testing.T) {
		up := a.upload(t, "..%2F..%2Fa.txt", "x").ok(t, http.StatusCreated)
		folder := filepath.Join(a.Data, "uploads", up["uploadId"].(string))
		equal(t, "upload", []any{up["name"], up["path"]}, []any{"a.txt", filepath.Join(folder, "a.txt")})
	})
	tab.add("an upload", "exactly 10 MiB, and one byte more", "201, and 413 PAYLOAD_TOO_LARGE", func(t *testing.T) {
		ten := "%PDF-" + strings.Repeat("x", 10<<20-5)
		a.upload(t, "a.pdf", ten).ok(t, http.StatusCreated)
		a.upload(t, "a.pdf", ten+"x").fails(t, http.StatusRequestEntityTooLarge, "PAYLOAD_TOO_LARGE")
	})
}

// warning returns the warning block for n rejected attachments. lines are its
// first entries.
func warning(n int, lines ...string) string {
	block := fmt.Sprintf("Attachment warning: %d attachment(s) could not be processed. Continuing with available content.\nRejected attachments:", n)
	for _, line := range lines {
		block += "\n- " + line
	}
	return block
}

func (a *attached) warningRows(tab *table) {
	const outside = "it lies outside the folders that may be read"
	several := func(n int) (refs []any) {
		for i := range n {
			refs = append(refs, fmt.Sprintf("/none/%d.txt", i))
		}
		return refs
	}
	three := []string{"0.txt: " + outside, "1.txt: " + outside, "2.txt: " + outside}
	for _, n := range []int{1, 3, 5} {
		lines := three[:min(n, 3)]
		if n == 5 {
			lines = append(lines[:3:3], "... 2 additional attachment error(s) omitted")
		}
		want := warning(n, lines...)
		tab.add(fmt.Sprintf("%d rejected, and text", n), "the answer to send", "202 with the warning: "+want, func(t *testing.T) {
			_, got := a.attach(t, "{\"steps\":[]}", several(n)...)
			equal(t, "warnings", got.ok(t, http.StatusAccepted)["warnings"], []string{want})
		})
		tab.add(fmt.Sprintf("%d rejected, and text", n), "the prompt that the agent gets", "the same warning first, then the text", func(t *testing.T) {
			id := a.sessionOf(t, "mine")
			turn := a.post(t, "/api/session/"+id+"/send", object{"content": "hello", "attachments": several(n)}).ok(t, http.StatusAccepted)["turnId"].(string)
			var said string
			for _, f := range a.turn(t, id, turn) {
				if f.event == "item_delta" {
					said += f.payload()["deltaContent"].(string)
				}
			}
			if !strings.HasPrefix(said, want) || !strings.HasSuffix(said, "hello") {
				t.Errorf("the agent got %q", said)
			}
		})
	}
	tab.add("some rejected", "the turn", "a notice ATTACHMENTS_REJECTED, once", func(t *testing.T) {
		session, got := a.attach(t, "{\"steps\":[]}", several(2)...)
		notices := 0
		for _, f := range a.turn(t, session, got.ok(t, http.StatusAccepted)["turnId"].(string)) {
			if f.event == "notice" && f.payload()["code"] == "ATTACHMENTS_REJECTED" {
				notices++
			}
		}
		equal(t, "notices", notices, 1)
	})
	tab.add("all rejected, and no text", "the error", "400 ATTACHMENT_FAILURE with the category, each path with its reason, and the count", func(t *testing.T) {
		session, got := a.attach(t, " ", several(5)...)
		p := got.fails(t, http.StatusBadRequest, "ATTACHMENT_FAILURE")
		var rejected []object
		for _, path := range several(5) {
			rejected = append(rejected, object{"path": path, "reason": outside})
		}
		equal(t, "details", p.Details, object{"category": "ALL_ATTACHMENTS_FAILED_NO_TEXT", "attachmentErrors": rejected, "rejectedAttachmentCount": 5})
		equal(t, "lastSeq", a.get(t, "/api/session/"+session+"/status").ok(t, http.StatusOK)["lastSeq"], 0)
	})
}
