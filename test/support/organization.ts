/**
 * Owns a started organization for tests: a fresh database, one administrator with a device key, and signed
 * requests to it. Everything goes through real sockets.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { stringify } from 'yaml'
import { readOrganizationConfig } from '../../src/config.ts'
import { startChild, untilReady } from '../../src/dev/stack/child-process.ts'
import { freePorts } from '../../src/dev/stack/ports.ts'
import type { Logger } from '../../src/http/telemetry/log.ts'
import { startOrganization, type RunningOrganization } from '../../src/organization/main.ts'
import {
  generatePrivateJwk,
  importPrivateJwk,
  publicJwk,
  type PrivateKey,
} from '../../src/wire/signatures/keys.ts'
import {
  exchange,
  onUndeclared,
  prepare,
  type OwnerCall,
  type PreparedCall,
  type Reply,
} from './authority.ts'
import { LOCK_TIMEOUT_MS } from './patience.ts'
import { migratedDatabase } from './postgres.ts'
import { usherProgram } from './usher-program.ts'

/** Signatures are made over this; the sockets are elsewhere. */
export const ORG_ISSUER = 'https://org.example'
/** Whose owners may join. */
export const MEMBER_AS = 'https://as.example'

/** A charter that claims what is below `acme`, with two groups. */
export const charterOf = (changes: object = {}) => ({
  name: 'Acme at work',
  claims: ['acme/*', 'acme/*/*'],
  roles: {
    staff: { name: 'Staff', grants: ['acme/mail-*'], delegation: 'any-agent' },
    guests: { name: 'Guests', grants: ['acme/calendar'], delegation: 'none' },
  },
  default_role: 'staff',
  envelope: { max_expires_in: 3600, allowed_scopes: ['read', 'send'], always_ask: ['acme/mail-out'] },
  ...changes,
})

export interface TestOrganization {
  /** What it was started with. */
  environment: Record<string, string>
  publicUrl: string
  adminUrl: string
  metricsUrl: string
  /** The device key of `ines`, who administers. */
  key: PrivateKey
  /** A request to the public listener. */
  request(target: string, init?: RequestInit): Promise<Reply>
  /** Signs a request to the administration without sending it, so that it can be sent twice. */
  prepare(call: OwnerCall): PreparedCall
  send(prepared: PreparedCall): Promise<Reply>
  /** Signs as `ines` and sends. */
  admin(call: OwnerCall): Promise<Reply>
  /** Kills it, if it is a separate process. */
  kill(): Promise<void>
  close(): Promise<void>
}

export interface TestOrganizationOptions {
  environment?: Record<string, string>
  /** Members of the provisioning file beside the usual ones. */
  file?: object
  /** Who else administers. */
  administrators?: object[]
  /** A second replica: same database and files. */
  beside?: TestOrganization
  /** Of its machine, in milliseconds; the right one when left out. */
  localClock?: () => number
  /** Where its lines go. */
  log?: Logger | undefined
  /** It is a separate process, which can be killed. */
  asProcess?: boolean
}

/** Starts one on ephemeral ports; `close` ends it, and with the first of several its database. */
export async function startTestOrganization(
  options: TestOrganizationOptions = {},
): Promise<TestOrganization> {
  const { beside } = options
  const key = beside?.key ?? importPrivateJwk(generatePrivateJwk())
  const database = beside === undefined ? await migratedDatabase('organization') : undefined
  const folder = mkdtempSync(join(tmpdir(), 'usher-org-'))
  const environment = beside?.environment ?? {
    ...writeFiles(folder, key, options),
    DATABASE_URL: database!.url,
    ...options.environment,
  }
  const issuer = environment['UMA_ORG_ISSUER']!
  const running = await (options.asProcess === true
    ? startProcess(folder, environment)
    : startOrganization(readOrganizationConfig(environment), {
        localClock: options.localClock,
        log: options.log,
        onUndeclared,
        lockTimeoutMs: LOCK_TIMEOUT_MS,
      }).then(serving => ({ ...serving, kill: cannotBeKilled })))
  const adminUrl = `http://${running.adminAddress}`
  const publicUrl = `http://${running.publicAddress}`
  return {
    environment,
    publicUrl,
    adminUrl,
    metricsUrl: `http://${running.metricsAddress}`,
    key,
    request: async (target, { method = 'GET', headers = {}, body } = {}) =>
      exchange({
        url: publicUrl + target,
        method,
        headers: headers as Record<string, string>,
        body: body as string | undefined,
      }),
    prepare: call => prepare(adminUrl, issuer, { key }, call),
    send: exchange,
    admin: call => exchange(prepare(adminUrl, issuer, { key }, call)),
    kill: () => running.kill(),
    close: async () => {
      await running.close()
      await database?.close()
      rmSync(folder, { recursive: true })
    },
  }
}

type Running = Omit<RunningOrganization, 'drain'> & Pick<TestOrganization, 'kill'>

const cannotBeKilled = (): Promise<never> => Promise.reject(new Error('this one is no process of its own'))

/** Started like `usher organization`, at its own addresses; if it was killed, `close` has nothing to do. */
async function startProcess(folder: string, environment: Record<string, string>): Promise<Running> {
  const [publicPort, adminPort, metricsPort] = await freePorts(3)
  const [publicAddress, adminAddress, metricsAddress] = [publicPort, adminPort, metricsPort].map(
    port => `127.0.0.1:${port}`,
  ) as [string, string, string]
  const child = startChild({
    name: 'organization',
    command: [process.execPath, usherProgram(), 'organization'],
    logFile: join(folder, 'organization.log'),
    environment: {
      ...environment,
      UMA_ORG_LISTEN: publicAddress,
      UMA_ORG_ADMIN_LISTEN: adminAddress,
      UMA_ORG_METRICS_LISTEN: metricsAddress,
      UMA_ORG_DRAIN_MS: '0',
    },
  })
  await untilReady(child, async () => (await fetch(`http://${publicAddress}/ready`)).status === 200)
  const kill = async (): Promise<void> => {
    process.kill(child.pid!, 'SIGKILL')
    await child.exited
  }
  return { publicAddress, adminAddress, metricsAddress, kill, close: () => child.stop() }
}

function writeFiles(
  folder: string,
  key: PrivateKey,
  options: TestOrganizationOptions,
): Record<string, string> {
  const keysFile = join(folder, 'keys.json')
  const provisionFile = join(folder, 'provision.yaml')
  writeFileSync(keysFile, JSON.stringify({ keys: [generatePrivateJwk(), generatePrivateJwk()] }), {
    mode: 0o600,
  })
  const administrators = [{ name: 'ines', device_keys: [publicJwk(key)] }, ...(options.administrators ?? [])]
  writeFileSync(provisionFile, stringify({ charter: charterOf(), administrators, ...options.file }))
  return {
    UMA_ORG_ISSUER: ORG_ISSUER,
    UMA_ORG_ID: 'acme',
    UMA_ORG_NAME: 'Acme',
    UMA_ORG_KEYS_FILE: keysFile,
    UMA_ORG_PROVISION: provisionFile,
    UMA_ORG_AUTHORITIES: MEMBER_AS,
    UMA_ORG_LISTEN: '127.0.0.1:0',
    UMA_ORG_ADMIN_LISTEN: '127.0.0.1:0',
    UMA_ORG_METRICS_LISTEN: '127.0.0.1:0',
    UMA_ORG_MIGRATE: 'false',
    UMA_ORG_LOG_LEVEL: 'fatal',
  }
}
