package acp

// Resumes implements [runnel.Resumer]: each agent says itself what it can.
func (c *conn) Resumes() (can bool) {
	_ = c.Do(func(func(any) error) error {
		can = c.tr.Caps.Resume || c.tr.Caps.Load
		return nil
	})
	return can
}
