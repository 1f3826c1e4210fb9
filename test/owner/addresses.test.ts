/**
 * Contract, "Authorization server metadata members" (`owner_endpoint`): a client that knows the issuer finds
 * the owner API; one that cannot reach it is told why, and what to do.
 */
import { describe, expect, it, vi } from 'vitest'
import { localTime } from '../../src/terminal/printable.ts'
import { ownerCommand } from '../support/owner-command.ts'
import { startScriptedServer } from '../support/scripted-http.ts'

const { answers, api, owner } = ownerCommand(() => ({ keys: [] }))

describe('the owner API', () => {
  it('is found where the metadata of the issuer says', async () => {
    vi.stubEnv('UMA_OWNER_API', '')
    answers['/owner/pending'] = { body: [] }
    expect(await owner('pending')).toMatchObject({ code: 0, printed: 'Nothing waits for you.\n' })
    expect(api.to('/owner/pending')).toHaveLength(1)
  })

  it.each([
    ['another issuer', { issuer: 'https://other.example' }],
    ['an address in plain http', { owner_endpoint: 'http://api.example/owner' }],
    ['no owner API', { owner_endpoint: undefined }],
  ])('is asked at the issuer where the metadata names %s', async (_what, changes) => {
    const issuer = await startScriptedServer(({ path }) =>
      path === '/.well-known/uma2-configuration'
        ? { body: { issuer: issuer.origin, owner_endpoint: 'http://127.0.0.1:1/owner', ...changes } }
        : path === '/owner/pending'
          ? { body: [] }
          : undefined,
    )
    vi.stubEnv('UMA_OWNER_API', '')
    expect(await owner('--issuer', issuer.origin, 'pending')).toMatchObject({ code: 0 })
    expect(issuer.to('/owner/pending')).toHaveLength(1)
    await issuer.close()
  })

  it('that nobody serves is told with the cause and the remedy', async () => {
    const gone = await startScriptedServer(() => undefined)
    await gone.close()
    expect(await owner('--api', gone.origin, 'pending')).toMatchObject({
      code: 3,
      said: `unreachable: The API at ${gone.origin} cannot be reached: nothing listens there (ECONNREFUSED). Start it, or correct the host and the port.\n`,
    })
  })

  it('tells the times of a refusal in the zone of its reader', async () => {
    const at = '2026-11-28T17:44:05.000Z'
    const error_description = `The key "laptop" may no longer decide for alice (removed ${at}).`
    answers['/owner/pending'] = { status: 401, body: { error: 'invalid_credential', error_description } }
    const { code, said } = await owner('pending')
    expect({ code, said }).toEqual({
      code: 1,
      said: `invalid_credential: The key "laptop" may no longer decide for alice (removed ${localTime(at)}).\n`,
    })
  })

  it('that is something else is told to be so, with what to look at', async () => {
    const other = await startScriptedServer(() => ({ status: 405, body: 'no' }))
    expect(await owner('--api', other.origin, 'pending')).toMatchObject({
      code: 1,
      said: 'http_405: Something answered with status 405 and gave no reason. See that this is the address of the API, and what stands before it.\n',
    })
    await other.close()
  })

  it('that speaks no TLS is told so', async () => {
    const plain = await startScriptedServer(() => ({ body: [] }))
    const { code, said } = await owner('--api', plain.origin.replace('http:', 'https:'), 'pending')
    expect({ code, said }).toEqual({
      code: 3,
      said: expect.stringMatching(/does not speak TLS there \(\w+\)\. Use/),
    })
    await plain.close()
  })
})

describe('a device key and a login', () => {
  it.each([
    ['remove-key', 'device-keys', { kid: 'abcdefghijkl', name: 'phone' }, 'abcdefgh'],
    ['remove-login', 'logins', { id: 'log_abcdefgh', name: 'work' }, 'log_abcd'],
  ])('%s takes the beginning of its name', async (command, list, record, given) => {
    const name = 'kid' in record ? record.kid : record.id
    answers[`/owner/${list}`] = { body: [record] }
    api.script(`/owner/${list}/${given}`, () => ({
      status: 404,
      body: { error: 'not_found', error_description: 'None.' },
    }))
    answers[`/owner/${list}/${name}`] = { body: { deleted: name } }
    expect(await owner(command, given)).toMatchObject({ printed: `${name} decides for you no more.\n` })
  })
})
