package procinfo

import "sync"

// BootID identifies the current boot of the system. It is empty if the system
// does not report an id.
var BootID = sync.OnceValue(readBootID)
