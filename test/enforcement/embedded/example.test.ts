import { spawn, type ChildProcess } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { freePorts } from '../../../src/dev/stack/ports.ts'
import { generatePrivateJwk } from '../../../src/wire/signatures/keys.ts'
import { startScriptedAuthority, type ScriptedAuthority } from '../../support/scripted-authority.ts'
import { runPage } from '../../support/pages.ts'
import { until } from '../../support/until.ts'

const ROOT = join(import.meta.dirname, '..', '..', '..')
const page = readFileSync(join(ROOT, 'docs', 'embedded.md'), 'utf8')
const block = (language: string): string =>
  new RegExp('```' + language + String.raw`\n([\s\S]*?)` + '```').exec(page)![1]!

let authority: ScriptedAuthority
let folder: string
let child: ChildProcess
let port: number
let said = ''

beforeAll(async () => {
  authority = await startScriptedAuthority()
  ;[port] = await freePorts(1)
  // Beneath the repository, so that the packages it imports are found.
  mkdirSync(join(ROOT, '.cache'), { recursive: true })
  folder = mkdtempSync(join(ROOT, '.cache', 'example-'))
  const put = (file: string, text: string): void => writeFileSync(join(folder, file), text, { mode: 0o600 })
  put('resource-keys.json', JSON.stringify({ keys: [generatePrivateJwk()] }))
  put('usher.yaml', block('yaml').replace('http://127.0.0.1:9100', authority.issuer))
  const entry = join(ROOT, 'src', 'enforcement', 'doors', 'embedded', 'index.ts')
  put(
    'server.mts',
    block('ts').replace("'@usher-authz/usher/embedded'", `'${entry}'`).replace('8080', `${port}`),
  )
  child = spawn(process.execPath, ['server.mts'], {
    cwd: folder,
    env: { PATH: process.env['PATH'], UMA_DEV_LOOPBACK: 'true' },
  })
  for (const stream of [child.stdout, child.stderr])
    stream?.on('data', (chunk: Buffer) => void (said += chunk.toString()))
  await until(async () => {
    if (child.exitCode !== null) throw new Error(said)
    return fetch(`http://127.0.0.1:${port}/jwks`).then(
      answer => answer.ok,
      () => false,
    )
  }, 15_000)
})
afterAll(async () => {
  child?.kill('SIGKILL')
  await authority.close()
  rmSync(folder, { recursive: true })
})

const post = (method: string, params: object): Promise<Response> =>
  fetch(`http://127.0.0.1:${port}/mcp/alice`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
  })

test('the example of docs/embedded.md lists its tool, challenges a call, registers, and ends on SIGTERM', async () => {
  expect(await (await post('tools/list', {})).text()).toContain('portfolio_read')
  authority.script('/token', {
    status: 200,
    body: { access_token: 'pat', token_type: 'Bearer', expires_in: 60 },
  })
  const call = await post('tools/call', { name: 'portfolio_read' })
  expect([call.status, call.headers.get('www-authenticate')]).toEqual([401, expect.stringMatching(/^UMA /)])
  await until(() => authority.count('/rs/register') > 0)
  child.kill('SIGTERM')
  await until(() => child.exitCode === 0)
})

test('its commands run as they are printed, in a folder that has nothing else', async () => {
  const entry = join(ROOT, 'src', 'enforcement', 'doors', 'embedded', 'index.ts')
  const ran = await runPage('docs/embedded.md', {
    before: `cd ~
ln -s ${join(ROOT, 'node_modules')} node_modules
cat > server.mts <<'END'
${block('ts').replace("'@usher-authz/usher/embedded'", `'${entry}'`)}
END
cat > usher.yaml <<'END'
${block('yaml')}
END
`,
    after: 'kill $tools; wait $tools; echo "ended: $?"',
    timeoutMs: 60_000,
  })
  expect(ran.map(({ shows }) => shows)).toEqual([['portfolio_read']])
  expect(ran[0]!.printed).toContain('portfolio_read')
  expect(ran[0]!.printed).toContain('ended: 0')
})

test('the package exports what its pages import', () => {
  const { exports } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { exports: object }
  expect(Object.keys(exports)).toEqual(['./agent', './embedded', './verify'])
})
