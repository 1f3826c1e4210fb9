/**
 * Owns an authority that notifies, and a real receiver of what it sends.
 */
import { sql } from 'kysely'
import { afterEach, expect } from 'vitest'
import type { JsonObject } from '../../src/wire/json.ts'
import type { Reply, TestOwner } from './authority.ts'
import { notifying, testBrowser } from './notifications.ts'
import { startScriptedServer, type Received } from './scripted-http.ts'
import { authorityStand } from './stands.ts'
import { startedOnce } from './started.ts'
import { testAgent, type TestAgent } from './test-agent.ts'
import { dueAtOnce } from './due.ts'

/** One that she has, and what came there. */
export interface Hook {
  id: string
  path: string
  secret: string
  came: () => Received[]
}

/** An authority of alice and bea, a receiver, and what a test does with both; nothing outlives a test. */
export function notificationStand() {
  const settings = notifying()
  const authority = authorityStand({ owners: ['alice', 'bea'], environment: settings })
  const receiver = startedOnce(() => startScriptedServer(() => ({ status: 204 })))
  let paths = 0
  const rows = async <Row = JsonObject>(text: string): Promise<Row[]> =>
    (await sql.raw<Row>(text).execute(authority.database.db)).rows
  const to = (
    owner: TestOwner,
    method: 'POST' | 'PUT' | 'DELETE',
    below: string,
    json?: object,
  ): Promise<Reply> =>
    authority.call(owner, {
      method,
      target: `/owner/notifications${below}`,
      ...(json === undefined ? {} : { json }),
    })
  const newPath = (): string => `/receiver-${++paths}`
  afterEach(async () => {
    for (const table of ['subscriptions', 'notifications']) await rows(`DELETE FROM ${table}`)
    await rows("DELETE FROM due WHERE kind = 'notify'")
    await rows("UPDATE families SET state = 'ended', decision = 'denied' WHERE state = 'awaiting_owner'")
  })
  return {
    settings,
    authority,
    receiver,
    rows,
    newPath,
    bea: () => authority.owners['bea']!,
    post: (owner: TestOwner, json: object) => to(owner, 'POST', '', json),
    change: (owner: TestOwner, id: string, json: object) => to(owner, 'PUT', `/${id}`, json),
    remove: (owner: TestOwner, id: string) => to(owner, 'DELETE', `/${id}`),
    tryOut: (owner: TestOwner, id: string) => to(owner, 'POST', `/${id}/test`),
    list: async (owner: TestOwner) =>
      (await authority.call(owner, { target: '/owner/notifications' })).body as JsonObject[],
    /** A new agent asks: she is asked whether to let it in. */
    asks: async (owner = 'alice', by: TestAgent = testAgent(authority)): Promise<TestAgent> => {
      const { body } = await by.ask('portfolio_read', {}, owner)
      expect(body.error).toBe('request_submitted')
      return by
    },
    familyOf: async (agent: TestAgent) =>
      (await rows<{ family: string }>(`SELECT family FROM families WHERE handle = '${agent.handle}'`))[0]!
        .family,
    /** Whatever is put off is due now. */
    hurry: async () => {
      await rows('UPDATE subscriptions SET retry_at = now() WHERE retry_at IS NOT NULL')
      await rows('UPDATE notifications SET at = now()')
      await dueAtOnce(authority.database, 'notify')
    },
    outbox: () => rows<{ id: string }>('SELECT id FROM notifications'),
    nothingIsDue: async () => (await rows("SELECT 1 FROM due WHERE kind = 'notify'")).length === 0,
    webhook: async (owner: TestOwner, timing: object = {}): Promise<Hook> => {
      const path = newPath()
      const url = receiver.origin + path
      const { status, body } = await to(owner, 'POST', '', {
        kind: 'webhook',
        name: 'my relay',
        url,
        ...timing,
      })
      expect(status).toBe(201)
      return { id: body.id, path, secret: body.secret, came: () => receiver.to(path) }
    },
    browserOf: async (owner: TestOwner) => {
      const path = newPath()
      const browser = testBrowser()
      const subscription = { endpoint: receiver.origin + path, keys: browser.keys }
      const { status, body } = await to(owner, 'POST', '', { kind: 'push', name: 'my phone', subscription })
      expect(status).toBe(201)
      const came = () => receiver.to(path)
      return { ...browser, subscription, id: body.id as string, path, came, body }
    },
  }
}
