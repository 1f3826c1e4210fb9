/**
 * A server at another path than its owner has at the gateway: what envoy/envoy.yaml and docs/attaching.md
 * tell to add. contract, "Authorized call": what is judged is the path that the agent signed.
 */
import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { readAll } from '../../src/owner/index.ts'
import { envoy } from '../support/envoy.ts'
import { describeWith } from '../support/requirement.ts'
import { startScene } from '../support/stack.ts'
import { startedOnce } from '../support/started.ts'
import { until } from '../../src/dev/stack/child-process.ts'

/** As the comment in the file has it. */
const [, REWRITE] = /# +(regex_rewrite: .*)$/m.exec(readFileSync('envoy/envoy.yaml', 'utf8'))!

describeWith(await envoy(), 'a rewritten path', found => {
  const changeEnvoy = (yaml: string): string =>
    yaml.replaceAll(/^( *)cluster: tool_server$/gm, (line, blanks: string) => `${line}\n${blanks}${REWRITE}`)
  const scene = startedOnce(() => startScene({ envoy: found, changeEnvoy }))

  it('reaches the server as its own, while agent and usher go by the path of the owner', async () => {
    const { result } = scene.startCall('portfolio_read')
    const [{ family }] = await until('a request to wait', async () => {
      const items = await readAll(scene.owner.pending())
      return items.length > 0 && (items as [(typeof items)[0]])
    })
    await scene.owner.decide(family, 'approved')
    expect(JSON.stringify((await result).result)).toContain('12 VTI')
    const { path, headers } = scene.stack.toolServer.record.arrivals.at(-1)!
    expect([path, headers['x-uma-owner']]).toEqual(['/mcp', 'alice'])
  })
})
