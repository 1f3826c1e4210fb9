/**
 * Owns the started parties that the rows of the contract are tested against: an authority with the owners
 * alice and bea, and a sidecar in front of their tools. Carl's tools are behind the same sidecar, and his
 * authority is a scripted one, because the real one never gives some answers that a sidecar must be ready
 * for.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { stringify } from 'yaml'
import { readSidecarConfig } from '../../src/config.ts'
import { freePorts } from '../../src/dev/stack/ports.ts'
import { startSidecar, type Sidecar } from '../../src/enforcement/main.ts'
import { createLogger } from '../../src/http/telemetry/log.ts'
import { parseChallenge } from '../../src/wire/negotiation/challenge.ts'
import { generatePrivateJwk } from '../../src/wire/signatures/keys.ts'
import type { Challenge } from '../../src/wire/negotiation/negotiation.ts'
import { callOf, type CallParts } from '../enforcement/calls.ts'
import { CLIENT_ID, startTestAuthority, WORLD, type TestAuthority } from './authority.ts'
import { checkBytes, connect, deniedBody, type Answer, type CheckClient } from './check-client.ts'
import { httpCheckClient, type HttpCheckClient } from './http-check-client.ts'
import { startScriptedAuthority, type ScriptedAuthority } from './scripted-authority.ts'

export const TOOLS_URL = 'https://tools.example'

export interface ContractStand {
  authority: TestAuthority
  carls: ScriptedAuthority
  sidecar: Sidecar
  /** A call as Envoy shows it to the sidecar. */
  check: (parts: CallParts) => Promise<Decision>
  /** The same call as a gateway shows it over HTTP, to `/check{path}`. */
  checkHttp: (parts: CallParts) => Promise<Judged>
  close(): Promise<void>
}

/** What the sidecar decided: `status` 200 is an allow. */
export interface Judged {
  status: number
  error: string | undefined
  body: Record<string, unknown>
  challenge: Challenge | undefined
}

export interface Decision extends Judged {
  answer: Answer
}

/** Starts them; the authority's issuer is its real address, so that the sidecar finds it. */
export async function startContractStand(environment: Record<string, string> = {}): Promise<ContractStand> {
  const address = `127.0.0.1:${(await freePorts(1))[0]}`
  const authority = await startTestAuthority({
    owners: ['alice', 'bea'],
    environment: {
      UMA_AS_ISSUER: `http://${address}`,
      UMA_AS_LISTEN: address,
      UMA_DEV_LOOPBACK: 'true',
      ...environment,
    },
  })
  const carls = await startScriptedAuthority()
  const directory = mkdtempSync(join(tmpdir(), 'usher-stand-'))
  const file = writeSidecarFile(directory, authority, carls)
  const sidecar = await startSidecar(readSidecarConfig(file, { UMA_DEV_LOOPBACK: 'true' }), {
    logger: createLogger({ name: 'test', level: 'fatal' }),
  })
  const envoy = connect(sidecar.checkAddress)
  const gateway = httpCheckClient(sidecar.httpCheckAddress!)
  return {
    authority,
    carls,
    sidecar,
    check: parts => check(envoy, parts),
    checkHttp: parts => checkHttp(gateway, parts),
    close: async () => {
      envoy.close()
      gateway.close()
      await sidecar.close()
      await carls.close()
      await authority.close()
      rmSync(directory, { recursive: true })
    },
  }
}

function writeSidecarFile(directory: string, authority: TestAuthority, carls: ScriptedAuthority): string {
  const keysFile = join(directory, 'keys.json')
  writeFileSync(keysFile, JSON.stringify({ keys: [generatePrivateJwk()] }), { mode: 0o600 })
  const of = (owner: string, more: object) => ({
    owner,
    client_id: CLIENT_ID,
    tools: WORLD.map(({ tool, resource, scope, consequence }) => ({
      tool,
      resource_id: `${owner}/${resource}`,
      scopes: [scope],
      consequence,
    })),
    ...more,
  })
  const hers = Object.values(authority.owners).map(({ owner, clientSecret }) =>
    of(owner, { authority: authority.issuer, client_secret: clientSecret }),
  )
  const file = join(directory, 'sidecar.yaml')
  writeFileSync(
    file,
    stringify({
      public_url: TOOLS_URL,
      listen: { check: '127.0.0.1:0', check_http: '127.0.0.1:0', http: '127.0.0.1:0' },
      keys_file: keysFile,
      realm: 'tools',
      owners: [...hers, of('carl', { authority: carls.issuer, client_secret: 'a secret of sixteen' })],
    }),
  )
  return file
}

const signedFor = (parts: CallParts) => callOf({ signedAuthority: new URL(TOOLS_URL).host, ...parts })

async function check(envoy: CheckClient, parts: CallParts): Promise<Decision> {
  const call = signedFor(parts)
  const headers = [...call.headers].flatMap(([key, lines]) => lines.map(value => ({ key, value })))
  const facts = {
    method: call.method,
    path: call.path,
    header_map: { headers },
    ...(call.body.state === 'complete' ? { raw_body: Buffer.from(call.body.bytes) } : {}),
  }
  const answer = await envoy.check(checkBytes(facts))
  const denied = answer.denied_response
  const body = denied === undefined ? {} : deniedBody(answer)
  const challenges = (denied?.headers ?? [])
    .filter(({ header }) => header?.key?.toLowerCase() === 'www-authenticate')
    .map(({ header }) => header?.value ?? '')
  return { ...judged(denied === undefined ? 200 : (denied.status?.code ?? 0), body, challenges), answer }
}

async function checkHttp(gateway: HttpCheckClient, parts: CallParts): Promise<Judged> {
  const { method, path, headers, body } = signedFor(parts)
  const answer = await gateway.check({
    method,
    target: `/check${path}`,
    lines: [...headers].flatMap(([name, values]) => values.map((value): [string, string] => [name, value])),
    ...(body.state === 'complete' ? { body: Buffer.from(body.bytes) } : {}),
  })
  const said = answer.body === '' ? {} : (JSON.parse(answer.body) as Record<string, unknown>)
  return judged(answer.status, said, answer.headers['www-authenticate'] ?? [])
}

function judged(status: number, body: Record<string, unknown>, challenges: string[]): Judged {
  return {
    status,
    error: body['error'] as string | undefined,
    body,
    challenge: challenges.some(value => value.startsWith('UMA ')) ? parseChallenge(challenges) : undefined,
  }
}
