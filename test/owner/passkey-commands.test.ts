/** The commands about her passkeys: contract, "Authentication" (owner at the owner API). */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { runOwner } from '../../src/owner/main.ts'
import { writeNewKey } from '../../src/terminal/key-file.ts'
import { parsePinnedKeys } from '../../src/wire/signatures/pinned-keys.ts'
import { runCaptured } from '../support/captured-terminal.ts'
import { newPasskey, ORIGIN, RP_ID } from '../support/passkeys.ts'
import { startScriptedOwnerApi, type ScriptedOwnerApi } from '../support/scripted-owner-api.ts'
import type { Reply } from '../support/scripted-http.ts'

const AT = '2026-11-21T09:00:00.000Z'
const { x, y } = newPasskey().jwk
const phone = {
  id: 'AAAABBBBCCCC',
  name: 'pho\u001bne',
  jwk: { kty: 'EC', crv: 'P-256', x, y },
  rp_id: RP_ID,
  origins: [ORIGIN],
  surface: 'served',
  added_at: AT,
  removed_at: null,
}
const lost = { ...phone, id: 'DDDDEEEEFFFF', name: 'lost', removed_at: AT }
let directory: string
let answers: Record<string, Reply>
let api: ScriptedOwnerApi
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'usher-passkeys-'))
  answers = { 'GET /owner/passkeys': { body: [phone, lost] } }
  const key = await writeNewKey(join(directory, 'key.json'))
  api = await startScriptedOwnerApi(
    { issuer: 'https://as.example.com', key },
    ({ method, path }) => answers[`${method} ${path}`],
  )
  vi.stubEnv('UMA_OWNER_API', api.origin)
  vi.stubEnv('UMA_OWNER_ISSUER', 'https://as.example.com')
  vi.stubEnv('UMA_OWNER_KEY', join(directory, 'key.json'))
})
afterEach(async () => {
  vi.unstubAllEnvs()
  await api.close()
  await rm(directory, { recursive: true })
})

const owner = (...args: string[]) => runCaptured(terminal => runOwner(args, terminal))

describe('passkeys', () => {
  it('are a table, with names escaped', async () => {
    expect((await owner('passkeys')).printed.split('\n')).toEqual([
      'ID            NAME         FOR         ADDED                 STATUS',
      'AAAABBBBCCCC  pho\\u{1b}ne  as.example  2026-11-21 09:00:00Z  in force',
      'DDDDEEEEFFFF  lost         as.example  2026-11-21 09:00:00Z  removed 2026-11-21 09:00:00Z',
      '',
    ])
    answers['GET /owner/passkeys'] = { body: [] }
    expect((await owner('passkeys')).printed).toBe('You have no passkey.\n')
  })

  it('are removed by the beginning of their id', async () => {
    const error = { error: 'not_found', error_description: 'None.' }
    answers['DELETE /owner/passkeys/AAAABBBB'] = { status: 404, body: error }
    answers['DELETE /owner/passkeys/AAAABBBBCCCC'] = { body: { deleted: 'AAAABBBBCCCC' } }
    expect(await owner('remove-passkey', 'AAAABBBB')).toMatchObject({
      code: 0,
      printed: 'AAAABBBBCCCC is no passkey of yours any more.\n',
    })
  })

  it('are exported as a resource pins them, marked as made in a served page', async () => {
    const { code, printed } = await owner('export-passkey', 'AAAABBBB')
    expect(code).toBe(0)
    const { passkeys, served } = parsePinnedKeys(printed)
    expect(passkeys).toMatchObject([{ id: phone.id, rp_id: RP_ID, origins: [ORIGIN] }])
    expect(served).toEqual([passkeys[0]!.thumbprint])
  })

  it.each(['DDDDEEEEFFFF', 'nowhere!'])('are not exported where %s signs nothing', async id => {
    expect(await owner('export-passkey', id)).toMatchObject({
      code: 2,
      said: expect.stringContaining(`You have no passkey ${id} that signs decisions here`),
    })
  })
})
