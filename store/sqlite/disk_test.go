package sqlite

import (
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

// A disk stands between SQLite and the file system, as one of its virtual file
// systems. It lets everything through, and can fail a call or keep a record of
// all that changes files.
type disk struct {
	name string // to open a database with

	mu     sync.Mutex
	fail   func(call, file string) int32 // result code of a call, 0 to let it through; nil lets all through
	record bool
	ops    []diskOp
}

// A diskOp is something that changed a file, or made the changes before it
// last.
type diskOp struct {
	call string // create, write, truncate, sync or delete
	file string // without its directory
	off  int64  // for truncate: the size; for delete: not 0 if it lasts
	data []byte
}

// All disks of this process. SQLite calls plain functions.
var disks struct {
	sync.Mutex
	made    atomic.Int64
	byVFS   map[uintptr]*disk
	files   map[uintptr]diskFile // by sqlite3_file
	methods map[uintptr]uintptr  // ours, by those of the operating system
}

type diskFile struct {
	disk    *disk
	name    string
	methods uintptr // the operating system's
}

// at returns what is at address p, which is none of Go's.
func at[T any](p uintptr) *T { return *(**T)(unsafe.Pointer(&p)) }

// address returns the address of f, a function of this package, as C has it.
func address[F any](f F) uintptr { return *(*uintptr)(unsafe.Pointer(&f)) }

// function returns the function at address p.
func function[F any](p uintptr) F { return *(*F)(unsafe.Pointer(&p)) }

type (
	openFunc     = func(tls *libc.TLS, vfs, name, file uintptr, flags int32, out uintptr) int32
	deleteFunc   = func(tls *libc.TLS, vfs, name uintptr, sync int32) int32
	closeFunc    = func(tls *libc.TLS, file uintptr) int32
	writeFunc    = func(tls *libc.TLS, file, buf uintptr, n int32, off int64) int32
	readFunc     = func(tls *libc.TLS, file, buf uintptr, n int32, off int64) int32
	truncateFunc = func(tls *libc.TLS, file uintptr, size int64) int32
	syncFunc     = func(tls *libc.TLS, file uintptr, flags int32) int32
	shmMapFunc   = func(tls *libc.TLS, file uintptr, region, size, extend int32, out uintptr) int32
)

// newDisk returns a disk in front of the file system.
func newDisk(t *testing.T) *disk {
	t.Helper()
	tls := libc.NewTLS()
	defer tls.Close()
	disks.Lock()
	defer disks.Unlock()
	d := &disk{name: fmt.Sprint("disk", disks.made.Add(1))}
	name, err := libc.CString(d.name) // never freed: SQLite keeps it
	if err != nil {
		t.Fatal(err)
	}
	system := sqlite3.Xsqlite3_vfs_find(tls, 0)
	vfs := libc.Xmalloc(tls, libc.Tsize_t(unsafe.Sizeof(sqlite3.Tsqlite3_vfs{})))
	*at[sqlite3.Tsqlite3_vfs](vfs) = *at[sqlite3.Tsqlite3_vfs](system)
	v := at[sqlite3.Tsqlite3_vfs](vfs)
	v.FpNext, v.FzName = 0, name
	v.FxOpen, v.FxDelete = address[openFunc](diskOpen), address[deleteFunc](diskDelete)
	if disks.byVFS == nil {
		disks.byVFS, disks.files, disks.methods = map[uintptr]*disk{}, map[uintptr]diskFile{}, map[uintptr]uintptr{}
	}
	disks.byVFS[vfs] = d
	if rc := sqlite3.Xsqlite3_vfs_register(tls, vfs, 0); rc != 0 {
		t.Fatalf("vfs_register: %d", rc)
	}
	return d
}

func (d *disk) verdict(call, file string) int32 {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fail == nil {
		return 0
	}
	return d.fail(call, file)
}

func (d *disk) note(op diskOp) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.record {
		d.ops = append(d.ops, op)
	}
}

// failing sets what becomes of the calls to come.
func (d *disk) failing(fail func(call, file string) int32) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fail = fail
}

// recorded returns how many operations there were so far.
func (d *disk) recorded() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.ops)
}

func diskOf(vfs uintptr) (d *disk, system uintptr) {
	tls := libc.NewTLS()
	defer tls.Close()
	disks.Lock()
	defer disks.Unlock()
	return disks.byVFS[vfs], sqlite3.Xsqlite3_vfs_find(tls, 0)
}

func fileOf(file uintptr) (diskFile, *sqlite3.Tsqlite3_io_methods) {
	disks.Lock()
	defer disks.Unlock()
	f := disks.files[file]
	return f, at[sqlite3.Tsqlite3_io_methods](f.methods)
}

func diskOpen(tls *libc.TLS, vfs, name, file uintptr, flags int32, out uintptr) int32 {
	d, system := diskOf(vfs)
	base := filepath.Base(libc.GoString(name))
	if rc := d.verdict("open", base); rc != 0 {
		at[sqlite3.Tsqlite3_file](file).FpMethods = 0
		return rc
	}
	if rc := function[openFunc](at[sqlite3.Tsqlite3_vfs](system).FxOpen)(tls, system, name, file, flags, out); rc != 0 {
		return rc
	}
	if flags&sqlite3.SQLITE_OPEN_CREATE != 0 {
		d.note(diskOp{call: "create", file: base})
	}
	f := at[sqlite3.Tsqlite3_file](file)
	disks.Lock()
	defer disks.Unlock()
	disks.files[file] = diskFile{d, base, f.FpMethods}
	ours := disks.methods[f.FpMethods]
	if ours == 0 {
		ours = libc.Xmalloc(tls, libc.Tsize_t(unsafe.Sizeof(sqlite3.Tsqlite3_io_methods{})))
		m := at[sqlite3.Tsqlite3_io_methods](ours)
		*m = *at[sqlite3.Tsqlite3_io_methods](f.FpMethods)
		m.FxClose, m.FxWrite, m.FxRead = address[closeFunc](diskClose), address[writeFunc](diskWrite), address[readFunc](diskRead)
		m.FxTruncate, m.FxSync = address[truncateFunc](diskTruncate), address[syncFunc](diskSync)
		m.FxShmMap = address[shmMapFunc](diskShmMap)
		disks.methods[f.FpMethods] = ours
	}
	f.FpMethods = ours
	return 0
}

func diskDelete(tls *libc.TLS, vfs, name uintptr, sync int32) int32 {
	d, system := diskOf(vfs)
	base := filepath.Base(libc.GoString(name))
	if rc := d.verdict("delete", base); rc != 0 {
		return rc
	}
	rc := function[deleteFunc](at[sqlite3.Tsqlite3_vfs](system).FxDelete)(tls, system, name, sync)
	if rc == 0 {
		d.note(diskOp{call: "delete", file: base, off: int64(sync)})
	}
	return rc
}

func diskClose(tls *libc.TLS, file uintptr) int32 {
	f, m := fileOf(file)
	disks.Lock()
	delete(disks.files, file)
	disks.Unlock()
	at[sqlite3.Tsqlite3_file](file).FpMethods = f.methods
	return function[closeFunc](m.FxClose)(tls, file)
}

func diskRead(tls *libc.TLS, file, buf uintptr, n int32, off int64) int32 {
	f, m := fileOf(file)
	if rc := f.disk.verdict("read", f.name); rc != 0 {
		return rc
	}
	return function[readFunc](m.FxRead)(tls, file, buf, n, off)
}

func diskWrite(tls *libc.TLS, file, buf uintptr, n int32, off int64) int32 {
	f, m := fileOf(file)
	if rc := f.disk.verdict("write", f.name); rc != 0 {
		return rc
	}
	rc := function[writeFunc](m.FxWrite)(tls, file, buf, n, off)
	if rc == 0 {
		f.disk.note(diskOp{"write", f.name, off, slices.Clone(unsafe.Slice(at[byte](buf), n))})
	}
	return rc
}

func diskTruncate(tls *libc.TLS, file uintptr, size int64) int32 {
	f, m := fileOf(file)
	if rc := f.disk.verdict("truncate", f.name); rc != 0 {
		return rc
	}
	rc := function[truncateFunc](m.FxTruncate)(tls, file, size)
	if rc == 0 {
		f.disk.note(diskOp{call: "truncate", file: f.name, off: size})
	}
	return rc
}

func diskSync(tls *libc.TLS, file uintptr, flags int32) int32 {
	f, m := fileOf(file)
	if rc := f.disk.verdict("sync", f.name); rc != 0 {
		return rc
	}
	rc := function[syncFunc](m.FxSync)(tls, file, flags)
	if rc == 0 {
		f.disk.note(diskOp{call: "sync", file: f.name})
	}
	return rc
}

func diskShmMap(tls *libc.TLS, file uintptr, region, size, extend int32, out uintptr) int32 {
	f, m := fileOf(file)
	if rc := f.disk.verdict("shm", f.name); rc != 0 {
		return rc
	}
	return function[shmMapFunc](m.FxShmMap)(tls, file, region, size, extend, out)
}

// journal opens the file of a journal on this disk.
func (d *disk) journal(path string) (journalFile, error) {
	name := filepath.Base(path)
	if err := d.error("open", name); err != nil {
		return nil, err
	}
	f, err := openFile(path)
	d.note(diskOp{call: "create", file: name})
	return diskJournal{f, d, name}, err
}

// error returns the error of a call of ours, as the operating system has it.
func (d *disk) error(call, file string) error {
	switch rc := d.verdict(call, file); rc {
	case 0:
		return nil
	case sqlite3.SQLITE_FULL:
		return errNoSpace
	case sqlite3.SQLITE_CANTOPEN:
		return errReadOnly
	default:
		return fmt.Errorf("the disk: result code %d", rc)
	}
}

// A diskJournal is the file of a journal on a disk of ours.
type diskJournal struct {
	journalFile
	disk *disk
	name string
}

func (j diskJournal) ReadAt(p []byte, off int64) (int, error) {
	if err := j.disk.error("read", j.name); err != nil {
		return 0, err
	}
	return j.journalFile.ReadAt(p, off)
}

func (j diskJournal) WriteAt(p []byte, off int64) (int, error) {
	if err := j.disk.error("write", j.name); err != nil {
		return 0, err
	}
	n, err := j.journalFile.WriteAt(p, off)
	j.disk.note(diskOp{"write", j.name, off, slices.Clone(p[:n])})
	return n, err
}

func (j diskJournal) Truncate(size int64) error {
	if err := j.disk.error("truncate", j.name); err != nil {
		return err
	}
	err := j.journalFile.Truncate(size)
	j.disk.note(diskOp{call: "truncate", file: j.name, off: size})
	return err
}

func (j diskJournal) Sync() error {
	if err := j.disk.error("sync", j.name); err != nil {
		return err
	}
	err := j.journalFile.Sync()
	j.disk.note(diskOp{call: "sync", file: j.name})
	return err
}
