/** Owns the bridge's side to a resource, as tests open it: its client can do nothing, unless they say so. */
import type { UpstreamOptions } from '../../src/agent/bridge/upstream/connect.ts'
import { openUpstream, type Upstream } from '../../src/agent/bridge/upstream/upstream.ts'

export function upstreamTo(resource: string, options: Partial<UpstreamOptions> = {}): Upstream {
  return openUpstream({
    resource,
    url: new URL(resource),
    specNs: 'https://spec.example',
    now: () => Math.floor(Date.now() / 1000),
    capabilities: () => ({}),
    onToolsChanged: () => undefined,
    ...options,
  })
}
