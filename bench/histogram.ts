/**
 * Owns reading a histogram off Prometheus text, and its quantiles: how the bench learns what a process
 * measured of itself.
 */

/** Counts of observations up to each bound, bounds ascending, the last one infinite. */
export interface Histogram {
  bounds: number[]
  counts: number[]
}

/** The histogram of this name in a Prometheus text, over all its labels; undefined if there is none. */
export function readHistogram(text: string, name: string): Histogram | undefined {
  const byBound = new Map<number, number>()
  for (const [, labels, value] of text.matchAll(new RegExp(`^${name}_bucket\\{(.*)\\} (\\d+)$`, 'gm'))) {
    const le = /(?:^|,)le="([^"]+)"/.exec(labels!)![1]!
    const bound = le === '+Inf' ? Infinity : Number(le)
    byBound.set(bound, (byBound.get(bound) ?? 0) + Number(value))
  }
  if (byBound.size === 0) return undefined
  const sorted = [...byBound].sort(([a], [b]) => a - b)
  return { bounds: sorted.map(([bound]) => bound), counts: sorted.map(([, count]) => count) }
}

/** What was observed between two readings of one histogram. */
export function difference(before: Histogram, after: Histogram): Histogram {
  return { bounds: after.bounds, counts: after.counts.map((count, n) => count - before.counts[n]!) }
}

/**
 * The value below which a share of the observations lies, taking those between two bounds as evenly spread.
 * Beyond the last finite bound: that bound. NaN of nothing.
 */
export function quantile({ bounds, counts }: Histogram, share: number): number {
  const total = counts.at(-1) ?? 0
  const rank = total * share
  const n = counts.findIndex(count => count >= rank)
  if (total === 0) return Number.NaN
  const lower = n === 0 ? 0 : bounds[n - 1]!
  const upper = bounds[n]!
  if (upper === Infinity) return lower
  const below = n === 0 ? 0 : counts[n - 1]!
  return lower + ((upper - lower) * (rank - below)) / (counts[n]! - below)
}
