/**
 * Is loaded by a sidecar of a history before its program: its monotonic clock runs 4 % too slowly, within the
 * 5 % that ADR 0021 allows, so that it counts each lease for longer than an authority does; and its wall
 * clock goes forward by a second, or back by one, whenever it gets SIGUSR2.
 */
const MONOTONIC_RATE = 0.96
const MOVED_MS = 1_000

const wall = Date.now
const monotonic = performance.now.bind(performance)
let movedMs = 0

Date.now = () => wall() + movedMs
performance.now = () => monotonic() * MONOTONIC_RATE
process.on('SIGUSR2', () => {
  movedMs = movedMs === 0 ? MOVED_MS : 0
})
