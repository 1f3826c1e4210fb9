/** A call and its report in a directory: contract, "Events", 2, and the choices on `reports.state_dir`. */
import { mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { sendCall, standingGrant, standProtected } from '../support/embedded.ts'
import { toldReports } from '../support/told-reports.ts'
import { until } from '../support/until.ts'
import { verdict } from './calls.ts'
import { coreStand, TRADE_PARAMS } from './core.ts'

const { authority, core, agent, decide, standing, singleUse, restart } = coreStand()
let path: string

beforeEach(() => {
  path = mkdtempSync(join(tmpdir(), 'usher-kept-'))
})
afterEach(() => rmSync(path, { recursive: true, force: true }))

const trade = (token: string) => decide({ tool: 'place_trade', args: TRADE_PARAMS, token, signer: agent })
/** The lines of all files in the directory that tell of a call. */
const written = (): string[] =>
  readdirSync(path, { recursive: true, encoding: 'utf8' })
    .map(name => join(path, name))
    .filter(name => statSync(name).isFile())
    .flatMap(name =>
      readFileSync(name, 'utf8')
        .split('\n')
        .filter(line => line.includes('"tool"')),
    )
const numbers = (): number[] => toldReports(authority.received).map(({ n }) => n)

describe('With a directory for reports', () => {
  test('a call is let through once its report is written', async () => {
    await restart({ state: { path, bytesMax: 1_000_000 } })
    authority.script('/audit/access', { status: 503, body: {} })
    expect(verdict(await decide({ token: standing(), signer: agent }))).toBe('allow')
    expect(written()).toHaveLength(1)
  })

  test('so is one under a grant of an authority whose RPT has the claims of the contract and no more', async () => {
    await restart({ state: { path, bytesMax: 1_000_000 } })
    authority.script('/audit/access', { status: 503, body: {} })
    const claims = { iat: undefined, family: undefined, jti: 'rpt_theirs' }
    const token = singleUse({ claims }, { iat: undefined, family: 'fam_theirs', jti: undefined })
    expect(verdict(await trade(token))).toBe('allow')
    expect(written()).toEqual([expect.stringContaining('"family":"fam_theirs","jti":"rpt_theirs"')])
  })

  test('a call whose report cannot be written is 503, and its single-use grant is not spent', async () => {
    await restart({ state: { path, bytesMax: 1_000_000 } })
    const [run] = readdirSync(path)
    renameSync(join(path, run!), `${path}-aside`)
    writeFileSync(join(path, run!), '')
    const token = singleUse()
    expect(verdict(await trade(token))).toBe('503 temporarily_unavailable')
    expect(authority.count('/consume')).toBe(0)
    rmSync(join(path, run!))
    renameSync(`${path}-aside`, join(path, run!))
    await until(async () => verdict(await trade(token)) === 'allow')
    expect(core.dropped).toEqual([])
  })

  test('an enforcement point inside a resource keeps and numbers its reports the same way', async () => {
    const stand = await standProtected(
      authority.issuer,
      (_request, response) => response.end(`${written().length}`),
      { reports: { state_dir: path } },
    )
    const token = standingGrant(authority, agent)
    const call = async () => (await sendCall(stand.port, { token, signer: agent })).body
    expect(await call()).toBe('1')
    await until(() => numbers().length === 1)
    expect(await call()).toBe('2')
    await until(() => numbers().length === 2)
    expect(numbers()).toEqual([1, 2])
    await stand.close()
    const last = JSON.parse(authority.received.at(-1)!.body) as object
    expect(last).toEqual({ instance: expect.any(String), n: 2, ended: true })
  })
})
