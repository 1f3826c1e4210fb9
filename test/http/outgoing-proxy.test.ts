/**
 * contract, "What the service does": what people run reaches tools and authorities from where it is, so it
 * goes out by the proxy that its environment names. Against a real proxy, by the program itself.
 */
import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import * as http from 'node:http'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { neverLeft } from '../../src/agent/transports/transport.ts'
import { proxyVariables } from '../../src/config/outgoing-proxy.ts'
import { useProxy } from '../../src/http/outbound/outgoing-proxy.ts'
import { generatePrivateJwk } from '../../src/wire/signatures/keys.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { usherProgram } from '../support/usher-program.ts'

const CLI = usherProgram()
const asked: string[] = []
const folder = temporaryFolder('proxy')
const key = join(folder, 'key.json')
let proxy: Server
let url: string
let refusal = 502

beforeAll(async () => {
  writeFileSync(key, JSON.stringify(generatePrivateJwk()), { mode: 0o600 })
  proxy = createServer((_request, response) => response.writeHead(502).end())
  proxy.on('connect', (request, socket) => {
    asked.push(request.url!)
    socket.end(`HTTP/1.1 ${refusal} No\r\n\r\n`)
  })
  await new Promise<void>(done => proxy.listen(0, '127.0.0.1', done))
  url = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`
})
afterAll(() => {
  proxy.close()
})
beforeEach(() => {
  asked.splice(0)
  refusal = 502
})

function usher(environment: Record<string, string>, ...args: string[]): Promise<string> {
  const env = { PATH: process.env['PATH'], HOME: folder, ...environment }
  return new Promise(resolve => {
    const child = execFile(process.execPath, [CLI, ...args], { env }, (_error, _out, err) => resolve(err))
    child.stdin!.end()
  })
}

const CALL = ['agent', 'call', 'https://tools.example/mcp', 'trade', '--key', key]
const OWNER = ['owner', '--issuer', 'https://as.example', '--key', key, 'pending']

describe('A proxy that the environment names', () => {
  it.each<[string, string, string[], string]>([
    ['an agent', 'HTTPS_PROXY', CALL, 'tools.example:443'],
    ['an agent, by the name in small letters', 'https_proxy', CALL, 'tools.example:443'],
    ['an agent, by the name for all', 'ALL_PROXY', CALL, 'tools.example:443'],
    ['an agent, by the name for all in small letters', 'all_proxy', CALL, 'tools.example:443'],
    ['an owner', 'HTTPS_PROXY', OWNER, 'as.example:443'],
    ['an owner, by the name for all', 'ALL_PROXY', OWNER, 'as.example:443'],
    [
      'the survey of tools',
      'HTTPS_PROXY',
      ['sidecar', 'tools', 'https://tools.example/mcp'],
      'tools.example:443',
    ],
  ])('is the way out of %s (%s)', async (_, name, args, target) => {
    await usher({ [name]: url }, ...args)
    expect(new Set(asked)).toEqual(new Set([target]))
  })

  it.each([
    ['what NO_PROXY names', { NO_PROXY: 'tools.example' }, 'https://tools.example/mcp'],
    ['what NO_PROXY names with a port', { NO_PROXY: 'tools.example:443' }, 'https://tools.example/mcp'],
    ['what is below a name of NO_PROXY', { NO_PROXY: 'a.test, .example' }, 'https://tools.example/mcp'],
    ['anything where NO_PROXY is a star', { NO_PROXY: '*' }, 'https://tools.example/mcp'],
    ['anything where a star is in NO_PROXY', { no_proxy: 'a.test,*' }, 'https://tools.example/mcp'],
    ['a name that ends with a full stop there', { NO_PROXY: 'tools.example.' }, 'https://tools.example/mcp'],
    ['what is below one', { NO_PROXY: '.example.:443' }, 'https://tools.example/mcp'],
    ['a name in letters of its own', { NO_PROXY: '*.bücher.example' }, 'https://a.bücher.example/mcp'],
    ['an address of IPv6', { NO_PROXY: 'FD00:0::1' }, 'https://[fd00::1]:8443/mcp'],
    ['an address of IPv6 in brackets', { NO_PROXY: '[fd00::1]' }, 'https://[fd00::1]:8443/mcp'],
    ['this machine', {}, 'http://127.0.0.1:1/mcp'],
    ['this machine by its name', {}, 'http://localhost:1/mcp'],
  ])('is not the way to %s', async (_, more, resource) => {
    const environment = { HTTPS_PROXY: url, HTTP_PROXY: url, ...more }
    const said = await usher(environment, 'agent', 'call', resource, 'trade', '--key', key)
    expect(said).not.toContain('Warning')
    expect(asked).toEqual([])
  })

  it.each(['10.0.0.0/8', 'fd00::/8', '10.0.0.0-10.255.255.255'])(
    'is used in spite of a range of addresses, and that is said: NO_PROXY=%s',
    async range => {
      const said = await usher({ HTTPS_PROXY: url, NO_PROXY: `a.test,${range}` }, ...CALL)
      expect(said).toContain(`Warning: ${range} in NO_PROXY is not used`)
      expect(new Set(asked)).toEqual(new Set(['tools.example:443']))
    },
  )

  it.each([
    [407, 'the proxy on the way wants a log-in (407). Give it in the URL of the proxy'],
    [403, 'the proxy on the way does not lead there (403). See to its rules'],
    [502, 'the proxy on the way does not lead there (502). See to its rules'],
  ])('that refuses by %i is told as what failed, to an agent and to an owner', async (status, words) => {
    refusal = status
    for (const command of [CALL, OWNER])
      expect(await usher({ HTTPS_PROXY: url }, ...command)).toContain(words)
  })

  it('that refuses has sent nothing on, so that a grant is as good as before', async () => {
    refusal = 503
    const restore = http.setGlobalProxyFromEnv({ https_proxy: url })
    const error = await fetch('https://tools.example/mcp').catch((error: unknown) => error)
    restore()
    expect(neverLeft(error)).toBe(true)
  })

  it('that is no URL is not used, and that is said', async () => {
    expect(await usher({ HTTPS_PROXY: 'socks5://a:1' }, ...CALL)).toContain(
      'Warning: Give HTTPS_PROXY as the URL',
    )
  })

  it.each([
    ['socks5://127.0.0.1:1080', {}],
    ['socks5h://127.0.0.1:1080', { HTTP_PROXY: 'http://127.0.0.1:1' }],
    ['socks://127.0.0.1:1080', {}],
    ['127.0.0.1:1080', {}],
  ])('for all that is no HTTP proxy is not used, and that is said once: %s with %j', async (all, more) => {
    const said = await usher({ ALL_PROXY: all, ...more }, ...CALL)
    expect(said.match(/Warning: ALL_PROXY is not used: .*Give HTTPS_PROXY/g)).toHaveLength(1)
  })

  it('for all is not looked at where HTTPS_PROXY names one', async () => {
    const said = await usher({ ALL_PROXY: 'socks5://127.0.0.1:1080', HTTPS_PROXY: url }, ...CALL)
    expect(said).not.toContain('Warning')
    expect(new Set(asked)).toEqual(new Set(['tools.example:443']))
  })

  it('for all gives way to the name of its own kind', async () => {
    await usher({ ALL_PROXY: 'http://127.0.0.1:1', HTTPS_PROXY: url }, ...CALL)
    expect(new Set(asked)).toEqual(new Set(['tools.example:443']))
  })

  it.each([{}, { HTTPS_PROXY: '' }, { ALL_PROXY: '' }, { all_proxy: '', NO_PROXY: 'a' }, { NO_PROXY: '*' }])(
    'is none if there is none: %j',
    environment => {
      expect(useProxy(proxyVariables(environment))).toBeUndefined()
    },
  )
})
