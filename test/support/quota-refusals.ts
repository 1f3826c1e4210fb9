/** Owns reading how often an authority refused something because an owner had as much as one may have. */
import type { Quota } from '../../src/authority/quotas.ts'

/** What `usher_quota_refusals_total` says of one quota. */
export async function quotaRefusals({ metricsUrl }: { metricsUrl: string }, quota: Quota): Promise<number> {
  const text = await (await fetch(`${metricsUrl}/metrics`)).text()
  return Number(
    new RegExp(`^usher_quota_refusals_total\\{quota="${quota}"\\} (\\d+)$`, 'm').exec(text)?.[1] ?? 0,
  )
}
