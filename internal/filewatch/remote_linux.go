package filewatch

import "syscall"

// remoteTypes are the types of file systems that other machines, or the host of
// a container, may change without an event here; see statfs(2).
var remoteTypes = map[uint32]bool{
	0x00006969: true, // NFS
	0x0000517b: true, // SMB
	0xff534d42: true, // CIFS
	0xfe534d42: true, // SMB 2
	0x65735546: true, // FUSE, virtiofs
	0x01021997: true, // 9p
	0x00c36400: true, // Ceph
	0x5346414f: true, // AFS
	0x6b414653: true, // kAFS
	0x73757245: true, // Coda
	0x786f4256: true, // shared folders of VirtualBox
}

// isRemote reports whether files below dir may change without an event.
func isRemote(dir string) bool {
	var st syscall.Statfs_t
	return syscall.Statfs(dir, &st) == nil && remoteTypes[uint32(st.Type)]
}
