/**
 * `usher owner profile`: where an owner enrolled is kept beside her key, and the code can carry it (contract,
 * "Authorization server metadata members": `owner_endpoint`; "Authentication").
 */
import { chmod, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { ownerCommand, OWNER_ISSUER } from '../support/owner-command.ts'
import { startScriptedServer, type ScriptedServer } from '../support/scripted-http.ts'

const { answers, api, directory, owner } = ownerCommand()

const path = () => join(directory(), 'key.profile.json')
const enrol = (...args: string[]) => owner('enrol', '--code', 'enrol_x', ...args)

beforeEach(() => {
  answers['/owner/enrolment'] = { status: 201, body: { owner: 'alice', name: 'laptop' } }
  answers['/owner/pending'] = { body: [] }
})

describe('enrol', () => {
  it('keeps issuer and owner API, so that the next command needs neither', async () => {
    expect((await enrol()).code).toBe(0)
    expect(JSON.parse(await readFile(path(), 'utf8'))).toEqual({ issuer: OWNER_ISSUER, api: api.origin })
    expect((await stat(path())).mode & 0o077).toBe(0)
    vi.stubEnv('UMA_OWNER_ISSUER', undefined)
    vi.stubEnv('UMA_OWNER_API', undefined)
    expect(await owner('pending')).toMatchObject({ code: 0, printed: 'Nothing waits for you.\n' })
  })

  it('takes the issuer from the code, if that carries it', async () => {
    vi.stubEnv('UMA_OWNER_ISSUER', undefined)
    const carried = await owner('enrol', '--code', `enrol_x@${OWNER_ISSUER}`)
    expect(carried).toMatchObject({ code: 0, said: expect.stringContaining(OWNER_ISSUER) as string })
    expect(JSON.parse(String(api.to('/owner/enrolment')[0]!.body))).toMatchObject({ code: 'enrol_x' })
    expect((await owner('pending')).code).toBe(0)
  })

  it('keeps nothing if it was refused', async () => {
    answers['/owner/enrolment'] = {
      status: 401,
      body: { error: 'invalid_credential', error_description: 'Give a code that is good.' },
    }
    expect((await enrol()).code).toBe(1)
    await expect(stat(path())).rejects.toThrow('ENOENT')
  })
})

describe('the profile', () => {
  it('is shown with what names the authority, saved and forgotten', async () => {
    vi.stubEnv('UMA_OWNER_ISSUER', undefined)
    expect((await owner('profile')).printed).toContain('No authority is named')
    const named = await owner('--issuer', OWNER_ISSUER, 'profile', '--save')
    expect(named.printed).toContain(OWNER_ISSUER)
    const kept = await owner('profile')
    expect(kept.printed).toMatch(/^named by +the profile$/m)
    expect(JSON.parse((await owner('--json', 'profile')).printed)).toMatchObject({
      issuer: OWNER_ISSUER,
      issuerFrom: 'profile',
      path: path(),
    })
    await owner('profile', '--forget')
    expect((await owner('profile')).printed).toContain('No authority is named')
    expect(await owner('profile', '--save', '--forget')).toMatchObject({ code: 2 })
  })

  it('gives its API for its own issuer alone', async () => {
    await enrol()
    vi.stubEnv('UMA_OWNER_API', undefined)
    const gone = await startScriptedServer(() => undefined)
    await gone.close()
    expect(await owner('--issuer', gone.origin, 'pending')).toMatchObject({ code: 3 })
    expect(api.to('/owner/pending')).toEqual([])
  })

  it('is not used where others could have written it', async () => {
    await enrol()
    await chmod(path(), 0o666)
    vi.stubEnv('UMA_OWNER_ISSUER', undefined)
    expect(await owner('pending')).toMatchObject({
      code: 2,
      said: expect.stringContaining('The profile is not used') as string,
    })
  })

  it('is not there before the first code, so a code without its authority is refused with what to give', async () => {
    vi.stubEnv('UMA_OWNER_ISSUER', undefined)
    expect(await owner('enrol', '--code', 'enrol_abc')).toMatchObject({
      code: 2,
      said: expect.stringMatching(/enrol_…@https:\/\/as\.example\.com.*--issuer/) as string,
    })
  })

  it('belongs to one key', async () => {
    await enrol()
    vi.stubEnv('UMA_OWNER_ISSUER', undefined)
    const other = join(directory(), 'other.json')
    expect(await owner('--key', other, 'pending')).toMatchObject({
      code: 2,
      said: 'Name the authority: --issuer <url> or UMA_OWNER_ISSUER, or enrol, which keeps it.\n',
    })
  })
})

describe('an issuer that does not say where the owner API is', () => {
  it('and does not serve it is told with the setting that names it', async () => {
    const agents = await startScriptedServer(() => ({
      status: 404,
      body: { error: 'not_found', error_description: 'Nothing is served at this path.' },
    }))
    vi.stubEnv('UMA_OWNER_API', undefined)
    expect(await owner('--issuer', agents.origin, 'pending')).toMatchObject({
      code: 1,
      said: `not_found: ${agents.origin} does not serve the owner API and does not say where it is. Name its address: --api <url> or UMA_OWNER_API.\n`,
    })
    await agents.close()
  })

  it('because it was given with a slash at its end is told so, and what to give', async () => {
    const authority = await startScriptedServer(() => ({
      status: 404,
      body: { error: 'not_found', error_description: 'Nothing is served at this path.' },
    }))
    const { origin } = authority
    const metadata = { issuer: origin, owner_endpoint: `${origin}/owner` }
    authority.script('/.well-known/uma2-configuration', { body: metadata })
    vi.stubEnv('UMA_OWNER_API', undefined)
    expect(await owner('--issuer', `${origin}/`, 'pending')).toMatchObject({
      code: 1,
      said: `not_found: ${origin}/ does not serve the owner API and does not say where it is, because no issuer ends with a slash. Give it as ${origin}.\n`,
    })
    await authority.close()
  })
})

describe('an issuer that says where the owner API is', () => {
  let agents: ScriptedServer
  beforeEach(async () => {
    agents = await startScriptedServer(() => ({
      status: 404,
      body: { error: 'not_found', error_description: 'Nothing is served at this path.' },
    }))
    const { origin } = agents
    const metadata = { issuer: origin, owner_endpoint: `${origin}/owner` }
    agents.script('/.well-known/uma2-configuration', { body: metadata })
    vi.stubEnv('UMA_OWNER_API', undefined)
  })
  afterEach(() => agents.close())

  const told = {
    code: 1,
    said: expect.stringMatching(
      /^not_found: \S+ says that the owner API is at \S+, and .*UMA_AS_OWNER_LISTEN.*UMA_AS_OWNER_URL/,
    ) as string,
  }

  it('and does not serve it there is told with the settings of its operator that mend it', async () => {
    expect(await owner('--issuer', agents.origin, 'pending')).toMatchObject(told)
  })

  it.each<[string, string[]]>([
    ['the export of a ledger, and not as one without keys of the log', ['ledger', 'export', '-']],
    ['the stream of her events', ['watch']],
  ])('and does not serve it there is told so by %s', async (_what, args) => {
    expect(await owner('--issuer', agents.origin, ...args)).toMatchObject(told)
  })
})

describe('an issuer at which nobody may be asked', () => {
  it.each(['http://as.example.com', 'as.example.com'])(
    '%s is called the issuer, not the API',
    async issuer => {
      vi.stubEnv('UMA_OWNER_API', undefined)
      expect(await owner('--issuer', issuer, 'pending')).toMatchObject({
        code: 2,
        said: `address_refused: The issuer (--issuer or UMA_OWNER_ISSUER) must be an https URL, or http on a loopback host: ${issuer}\n`,
      })
      expect(await owner('--api', issuer, 'pending')).toMatchObject({
        code: 2,
        said: `address_refused: The API must be an https URL, or http on a loopback host: ${issuer}\n`,
      })
    },
  )
})
