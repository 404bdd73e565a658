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

// A disk is a virtual file system of SQLite. It passes calls to the operating
// system, unless the test makes a call fail. It can record all calls that
// change files.
type disk struct {
	name string // name of the virtual file system, for opening a database

	mu     sync.Mutex
	fail   func(call, file string) int32 // returns the result code of a call; 0 passes the call on. Default: all calls are passed on
	record bool
	ops    []diskOp
}

// A diskOp is a call that changed a file, or that flushed the earlier changes
// of a file to the disk.
type diskOp struct {
	call string // create, write, truncate, sync or delete
	file string // without its directory
	off  int64  // for write: the offset; for truncate: the size; for delete: 1 if the deletion was flushed
	data []byte
}

// disks are all disks of this process. They are global, because SQLite calls
// plain functions.
var disks struct {
	sync.Mutex
	made    atomic.Int64
	byVFS   map[uintptr]*disk
	files   map[uintptr]diskFile // by address of the sqlite3_file
	methods map[uintptr]uintptr  // our methods by the address of the operating system's methods
}

type diskFile struct {
	disk    *disk
	name    string
	methods uintptr // methods of the operating system
}

// at returns the value at address p in memory that Go does not manage.
func at[T any](p uintptr) *T { return *(**T)(unsafe.Pointer(&p)) }

// address returns the address of the function f in the form that the translated
// C code calls.
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

// newDisk returns a disk that passes calls to the operating system's file
// system.
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

// failing sets the function that decides which later calls fail.
func (d *disk) failing(fail func(call, file string) int32) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fail = fail
}

// recorded returns the number of operations recorded so far.
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

// error returns the error with which a call on a journal file fails, in the
// form that the operating system returns, or nil.
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

// A diskJournal is a journal file whose calls the disk can record and fail.
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
