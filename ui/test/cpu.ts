/**
 * The CPU time of work in ms. Other programs on the machine do not affect it.
 */
export function cpuTime(work: () => void): number {
  const before = process.cpuUsage();
  work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}
