/**
 * contract, "What the service does", beats 1 to 4, by the programs of docs/examples, which are written from
 * the contract: unchanged, at a real authority.
 */
import { execFile } from 'node:child_process'
import { cp, mkdir, mkdtemp, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import type { JsonObject } from '../../../src/wire/json.ts'
import { toolParameters } from '../../../src/wire/resources/tool-parameters.ts'
import { useBridges } from '../../support/bridge-stand.ts'
import { python } from '../../support/python.ts'
import { ROOT } from '../../support/repository.ts'
import { describeWith } from '../../support/requirement.ts'
import type { Reply } from '../../support/scripted-http.ts'
import { startScriptedPeers } from '../../support/scripted-resource.ts'
import { startedForEach } from '../../support/started.ts'

const run = promisify(execFile)

describeWith(python('mcp'), 'The agent in Python, with httpx and the official MCP client', ({ program }) => {
  const stand = useBridges({ stack: { authorityEnvironment: { UMA_AS_POLL_SECONDS: '1' } } })
  const script = join(ROOT, 'docs', 'examples', 'python', 'agent.py')
  const call = (...args: string[]) =>
    run(program, [script, stand.stack.resource, ...args], {
      env: { PATH: process.env['PATH'], UMA_DEV_LOOPBACK: 'true' },
    })

  it('negotiates, waits for the owner, signs, and has the answer', async () => {
    const asked = call('portfolio_read')
    asked.catch(() => undefined)
    const { family, reason } = await stand.waiting()
    expect(reason).toBe('Try the example')
    await stand.owner.decide(family, 'approved')
    const { stdout, stderr } = await asked
    expect(JSON.parse(stdout)).toEqual(['12 VTI, 40 BND'])
    expect(stderr).toContain("'purpose': 'Know what the account holds'")
  })

  it('has the exact operation approved, which runs once', async () => {
    const trade = { symbol: 'VTI', qty: stand.unique() }
    const asked = call('place_trade', JSON.stringify(trade))
    asked.catch(() => undefined)
    const { family, operation } = await stand.waiting()
    expect(operation).toEqual({ tool: 'place_trade', params: trade })
    await stand.owner.decide(family, 'approved')
    expect(JSON.parse((await asked).stdout)).toEqual([`Bought ${trade.qty} VTI`])
    expect(stand.executions('place_trade', trade)).toBe(1)
  })

  it('is denied, and says so', async () => {
    const asked = call('portfolio_read')
    asked.catch(() => undefined)
    await stand.owner.decide((await stand.waiting()).family, 'denied')
    await expect(asked).rejects.toMatchObject({ stderr: expect.stringContaining('request_denied') })
  })
})

describeWith(python('mcp'), 'The agent in Python, where nobody says yes or no', ({ program }) => {
  const folder = join(ROOT, 'docs', 'examples', 'python')
  const env = { PATH: process.env['PATH'], UMA_DEV_LOOPBACK: 'true', PYTHONDONTWRITEBYTECODE: '1' }
  const peers = startedForEach(startScriptedPeers)
  const page = (status: number): Reply => ({ status, headers: { 'content-type': 'text/html' }, body: '<h1>' })
  const METADATA = '/.well-known/agents-configuration'

  it.each<[string, string, Reply]>([
    ['a page in the place of a token', '/token', page(503)],
    ['one that says nothing of an outage', '/token', page(403)],
    ['JSON of a gateway there', '/token', { status: 429, body: { message: 'API rate limit exceeded' } }],
    ['an outage that is said so', '/token', { status: 503, body: { error: 'temporarily_unavailable' } }],
    ['a page in the place of metadata', METADATA, page(404)],
    ['a page in the place of metadata, with status 200', METADATA, page(200)],
    ['a connection that is closed', '/token', { write: response => void response.destroy() }],
  ])('says so, and no denial: %s', async (_what, path, reply) => {
    peers.authority.script(path, reply)
    const ended = run(program, [join(folder, 'agent.py'), peers.resource, 'read', '{}'], { env })
    await expect(ended).rejects.toMatchObject({
      code: 3,
      stderr: expect.not.stringMatching(/Refused|Traceback/),
    })
  })

  it('says of a denial that it is one', async () => {
    const denied = { error: 'request_denied', error_description: 'no' }
    peers.authority.script('/token', { status: 403, body: denied })
    const ended = run(program, [join(folder, 'agent.py'), peers.resource, 'read', '{}'], { env })
    await expect(ended).rejects.toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/^Refused: 'request_denied: no'$/m),
    })
  })

  it('keeps its key in the file that AGENT_KEY names, closed to others, and is the same agent at the next start', async () => {
    const place = await mkdtemp(join(tmpdir(), 'usher-agent-key-'))
    onTestFinished(() => rm(place, { recursive: true }))
    const script = 'import agent; print(agent.own_key().private_bytes_raw().hex())'
    const keyWith = async (AGENT_KEY?: string): Promise<string> => {
      const ownEnv = AGENT_KEY === undefined ? env : { ...env, AGENT_KEY }
      return (await run(program, ['-c', script], { env: ownEnv, cwd: folder })).stdout
    }
    const file = join(place, 'agent-key')
    const first = await keyWith(file)
    expect(first).toMatch(/^[0-9a-f]{64}\n$/)
    expect(await keyWith(file)).toBe(first)
    expect((await stat(file)).mode & 0o777).toBe(0o600)
    expect(await keyWith()).not.toBe(first)
  })

  it.each<JsonObject>([
    { name: 'read', arguments: { a: 1 }, _meta: { progressToken: 1 } },
    { name: 'read' },
    { name: 'read', arguments: { a: 1 }, inputResponses: { q: { action: 'accept' } }, requestState: 's' },
  ])('has the same parameters approved as an enforcement point hashes: %j', async params => {
    const script = 'import agent, json, sys; print(json.dumps(agent.parameters(json.loads(sys.argv[1]))))'
    const { stdout } = await run(program, ['-c', script, JSON.stringify(params)], { env, cwd: folder })
    expect(JSON.parse(stdout)).toEqual(toolParameters(params))
  })
})

describe('The client of the official SDK of TypeScript, over the agent library', () => {
  const stand = useBridges({ stack: { authorityEnvironment: { UMA_AS_POLL_SECONDS: '1' } } })
  /** As somebody has it who installed both packages; ours is the sources of this tree. */
  let project: string
  beforeAll(async () => {
    project = await mkdtemp(join(tmpdir(), 'usher-example-'))
    await cp(join(ROOT, 'docs', 'examples', 'sdk-client.ts'), join(project, 'sdk-client.ts'))
    await writeFile(join(project, 'package.json'), JSON.stringify({ type: 'module' }))
    const library = join(project, 'usher')
    await mkdir(library)
    await mkdir(join(project, 'node_modules', '@usher-authz'), { recursive: true })
    const manifest = { name: '@usher-authz/usher', type: 'module', exports: { './agent': './agent.ts' } }
    await writeFile(join(library, 'package.json'), JSON.stringify(manifest))
    const source = JSON.stringify(join(ROOT, 'src', 'agent', 'index.ts'))
    await writeFile(join(library, 'agent.ts'), `export * from ${source}\n`)
    await symlink(library, join(project, 'node_modules', '@usher-authz', 'usher'))
    const sdk = join('node_modules', '@modelcontextprotocol')
    await symlink(join(ROOT, sdk), join(project, sdk))
  })
  afterAll(() => rm(project, { recursive: true, force: true }))

  it('negotiates and has the answer, by the official client of TypeScript', async () => {
    const args = ['sdk-client.ts', stand.stack.resource, 'portfolio_read', '--loopback']
    const asked = run(process.execPath, args, { cwd: project, env: { PATH: process.env['PATH'] } })
    asked.catch(() => undefined)
    await stand.owner.decide((await stand.waiting()).family, 'approved')
    const { stdout, stderr } = await asked
    expect(JSON.parse(stdout)).toMatchObject([{ text: '12 VTI, 40 BND' }])
    expect(stderr).toContain('Know what the account holds')
  })
})
