/**
 * Owns two versions of the authority side by side: the next one, which is this program with an added expand
 * and an added contract migration, and the load under which both must give the same answers.
 */
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'vitest'
import { exchange, fetchPat, type TestAuthority } from '../support/authority.ts'
import type { AuthorityProcess } from '../support/authority-process.ts'
import { ROOT } from '../support/repository.ts'
import { protectionCall, testAgent } from '../support/test-agent.ts'
import { until } from '../support/until.ts'

/** What the next version brings: to tables that every call reads, and none of it needed by the one before. */
export const BROUGHT = {
  '9001_later.sql': `-- expand
ALTER TABLE grants ADD COLUMN later text NOT NULL DEFAULT 'x';
ALTER TABLE connections ADD COLUMN later jsonb;
ALTER TABLE families ADD COLUMN later integer;
`,
  '9002_later_grants.sql': `-- expand, alone
CREATE INDEX CONCURRENTLY IF NOT EXISTS later_grants ON grants (later);
`,
  '9003_gone.sql': `-- contract: needs 0024
ALTER TABLE connections DROP CONSTRAINT connections_admits_check;
ALTER TABLE grants ALTER COLUMN later DROP DEFAULT;
ALTER TABLE grants ALTER COLUMN later DROP NOT NULL;
`,
}

/** The same program with more migrations; answers what Node is to run. */
export function nextVersion(): { program: string[]; remove: () => void } {
  const tree = mkdtempSync(join(tmpdir(), 'usher-next-'))
  for (const part of ['src', 'node_modules', 'package.json', 'proto', 'envoy'])
    symlinkSync(join(ROOT, part), join(tree, part))
  mkdirSync(join(tree, 'migrations'))
  cpSync(join(ROOT, 'migrations'), join(tree, 'migrations'), { recursive: true })
  for (const [name, sql] of Object.entries(BROUGHT))
    writeFileSync(join(tree, 'migrations/authority', name), sql)
  const program = ['--preserve-symlinks', '--preserve-symlinks-main', join(tree, 'src/cli.ts')]
  return { program, remove: () => rmSync(tree, { recursive: true }) }
}

/** A replica in the world of a test's authority. */
export const replicaIn = (world: TestAuthority, replica: AuthorityProcess): TestAuthority => ({
  ...world,
  request: (method, target, init = {}) =>
    exchange({ url: replica.publicUrl + target, method, headers: init.headers ?? {}, body: init.body }),
  call: (_owner, call) => replica.own(call),
  pat: (owner = 'alice') => fetchPat(replica.publicUrl, world.owners[owner]!),
})

/** Both as one, which answer in turn: a negotiation goes on at the one that did not begin it. */
function inTurn(one: TestAuthority, other: TestAuthority): TestAuthority {
  let asked = 0
  const next = (): TestAuthority => (asked++ % 2 === 0 ? one : other)
  return {
    ...one,
    request: (...given) => next().request(...given),
    call: (...given) => next().call(...given),
    pat: (...given) => next().pat(...given),
  }
}

const isLive = async (where: TestAuthority, token: string): Promise<unknown> =>
  (await protectionCall(where, '/introspect', { token })).body.active
const consumes = async (where: TestAuthority, token: string): Promise<unknown> =>
  (await protectionCall(where, '/consume', { token })).body.consumed
const toldOf = async (where: TestAuthority, handle: string): Promise<string[]> => {
  const { body } = await where.call(where.alice, { target: '/owner/ledger?first=newest&limit=200' })
  const entries = body.entries as { kind: string; handle?: string }[]
  return entries.filter(entry => entry.handle === handle).map(({ kind }) => kind)
}
let trades = 0

/**
 * A negotiation at both in turn; its grant lives at both until it is revoked at either, and one for one use
 * is used at one of them; both then tell the same of it.
 */
async function round(one: TestAuthority, other: TestAuthority): Promise<void> {
  const agent = testAgent(inTurn(one, other))
  const { rpt } = await agent.granted()
  expect([await isLive(one, rpt), await isLive(other, rpt)]).toEqual([true, true])
  const operation = { tool: 'place_trade', params: { order: ++trades } }
  const trade = await agent.granted('place_trade', { operation })
  const uses = await Promise.all([consumes(one, trade.rpt), consumes(other, trade.rpt)])
  expect(uses.filter(Boolean)).toHaveLength(1)
  const revoked = await one.call(one.alice, {
    method: 'POST',
    target: '/owner/connections/revoke',
    json: { handle: agent.handle },
  })
  expect(revoked.status).toBeLessThan(300)
  expect([await isLive(one, rpt), await isLive(other, rpt)]).toEqual([false, false])
  const told = await toldOf(one, agent.handle)
  expect(told.filter(kind => kind === 'revoked')).toHaveLength(1)
  expect(await toldOf(other, agent.handle)).toEqual(told)
}

export interface Load {
  /** Whom the rounds that begin from now on ask. */
  now(one: TestAuthority, other: TestAuthority): void
  /** Settles once some more rounds went well; throws as soon as one did not. */
  roundsMore(): Promise<void>
  end(): Promise<void>
}

const ROUNDS = 5
const ROUNDS_MS_MAX = 120_000

/** Rounds without end, two at a time. */
export function underLoad(one: TestAuthority, other: TestAuthority): Load {
  let rounds = 0
  let pair = [one, other] as const
  const ended = new AbortController()
  const going = Promise.all(
    [0, 1].map(async () => {
      while (!ended.signal.aborted) {
        const [a, b] = pair
        await (rounds % 2 === 0 ? round(a, b) : round(b, a))
        rounds++
      }
    }),
  )
  // Told by `roundsMore` or by `end`.
  going.catch(() => undefined)
  return {
    now: (a, b) => void (pair = [a, b]),
    roundsMore: async () => {
      const enough = rounds + ROUNDS
      await Promise.race([until(() => rounds >= enough, ROUNDS_MS_MAX), going])
    },
    end: async () => {
      ended.abort()
      await going
    },
  }
}
