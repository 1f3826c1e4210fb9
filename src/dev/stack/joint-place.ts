/**
 * Owns what alice of a local stack holds with bob and carol: the tally of the account, the authority of the
 * other two, and the files that a deployment writes too. Contract: "Tally for a jointly held resource": each
 * is its own process, with its own database.
 */
import { randomBytes } from 'node:crypto'
import { stringify } from 'yaml'
import {
  generatePrivateJwk,
  importPrivateJwk,
  publicJwk,
  type PrivateKey,
} from '../../wire/signatures/keys.ts'
import { mandateDigest, parseMandate } from '../../wire/joint/mandate.ts'
import { authorityEnvironment, OWNER, writePrivate, type Household } from './household.ts'
import { freePorts } from './ports.ts'
import type { TurnedTally } from './turned-tally.ts'

export const ACCOUNT = 'family-1'
const RESOURCE_PATH = `/mcp/${ACCOUNT}`
const CLIENT_ID = 'family-tools'
/** The people who hold it with alice, both at one authority that is not hers. */
const OTHERS = ['bob', 'carol'] as const
/** How many of the three must agree, each of weight 1. */
const THRESHOLD = 2

/** The tools of the account; reading it and closing it are two scopes of one resource. */
const TOOLS = [
  { tool: 'portfolio_read', resource: 'account', scope: 'read', consequence: 'reversible' },
  { tool: 'close_account', resource: 'account', scope: 'close', consequence: 'irreversible' },
  { tool: 'place_trade', resource: 'trades', scope: 'trade', consequence: 'irreversible' },
  { tool: 'statement_read', resource: 'statements', scope: 'read', consequence: 'reversible' },
] as const
const NAMES = { account: 'The account itself', trades: 'Trades', statements: 'Statements' }

/** What a stack with an account held jointly is started with. */
export interface JointOptions {
  /** Empty databases: of the tally, and of the authority of bob and carol. */
  databases: { tally: string; authority: string }
  /** In front of the tally: where everybody reaches it. */
  turned: TurnedTally
}

/** A server of a stack, as it is started. */
export interface PlacedServer {
  name: string
  /** The subcommand of `usher`. */
  command: string
  /** The address of its health. */
  url: string
  environment: Record<string, string>
}

/** One of the holders, as she reaches her own authority. */
export interface StoryHolder {
  owner: string
  issuer: string
  api: string
  key: PrivateKey
}

/** An account held jointly, as everybody else needs to know it. */
export interface JointPlace {
  /** Issuer of the tally. */
  tally: string
  turned: TurnedTally
  /** The key that it signs with, which its operator has. */
  tallyKey: PrivateKey
  /** What agents call. */
  resource: string
  mandate_s256: string
  holders: Record<'alice' | 'bob' | 'carol', StoryHolder>
  servers: PlacedServer[]
  /** The entry of the sidecar's file. */
  route: object
}

interface StackContext {
  issuer: string
  ownerApi: string
  publicUrl: string
  household: Household
}

/** Writes keys and provisioning files, and chooses where tally and authority listen. */
export async function placeJoint(
  directory: string,
  { databases, turned }: JointOptions,
  context: StackContext,
): Promise<JointPlace> {
  const [tallyPort, agentsPort, ownerPort] = (await freePorts(3)) as [number, number, number]
  const own = `http://127.0.0.1:${tallyPort}`
  turned.lead(own)
  const tally = turned.url
  const other = { issuer: `http://127.0.0.1:${agentsPort}`, api: `http://127.0.0.1:${ownerPort}` }
  const holders: JointPlace['holders'] = {
    alice: { owner: OWNER, issuer: context.issuer, api: context.ownerApi, key: context.household.ownerKey },
    bob: { owner: 'bob', ...other, key: importPrivateJwk(generatePrivateJwk()) },
    carol: { owner: 'carol', ...other, key: importPrivateJwk(generatePrivateJwk()) },
  }
  const resource = context.publicUrl + RESOURCE_PATH
  const clientSecret = randomBytes(24).toString('base64url')
  const tallyJwk = generatePrivateJwk()
  const mandate = mandateOf(Object.values(holders))
  const mandate_s256 = mandateDigest(parseMandate({ ...mandate, tally }))
  const account = { ...mandate, ...registryOf(resource, clientSecret) }
  const authority = await authorityOf(directory, { databaseUrl: databases.authority, tally, holders })
  const counting = await tallyOf(directory, { databaseUrl: databases.tally, tally, jwk: tallyJwk, account })
  return {
    tally,
    turned,
    tallyKey: importPrivateJwk(tallyJwk),
    resource,
    mandate_s256,
    holders,
    servers: [
      { name: 'other-authority', command: 'authority', url: other.issuer, environment: authority },
      {
        name: 'tally',
        command: 'tally',
        url: own,
        environment: { ...counting, UMA_TALLY_LISTEN: `127.0.0.1:${tallyPort}` },
      },
    ],
    route: routeOf({ tally, clientSecret, mandate_s256 }),
  }
}

/** The files of the authority of bob and carol, and what its process is told. */
async function authorityOf(
  directory: string,
  of: { databaseUrl: string; tally: string; holders: JointPlace['holders'] },
): Promise<Record<string, string>> {
  const { issuer, api } = of.holders.bob
  return {
    ...authorityEnvironment({
      issuer,
      listen: new URL(issuer).host,
      ownerListen: new URL(api).host,
      databaseUrl: of.databaseUrl,
      keysFile: await writeKeys(directory, 'other-authority-keys.json', generatePrivateJwk()),
      provisionFile: await writePrivate(directory, 'other.yaml', stringify(othersOf(of.holders))),
    }),
    UMA_AS_TALLIES: of.tally,
  }
}

/** The same of the tally. */
async function tallyOf(
  directory: string,
  of: { databaseUrl: string; tally: string; jwk: object; account: object },
): Promise<Record<string, string>> {
  return {
    DATABASE_URL: of.databaseUrl,
    UMA_TALLY_ISSUER: of.tally,
    UMA_TALLY_METRICS_LISTEN: '127.0.0.1:0',
    UMA_TALLY_KEYS_FILE: await writeKeys(directory, 'tally-keys.json', of.jwk),
    UMA_TALLY_PROVISION: await writePrivate(directory, 'tally.yaml', stringify({ accounts: [of.account] })),
    UMA_TALLY_POLL_SECONDS: '1',
    // Only the end of the stack waits for it.
    UMA_TALLY_DRAIN_MS: '0',
  }
}

function writeKeys(directory: string, file: string, jwk: object): Promise<string> {
  return writePrivate(directory, file, JSON.stringify({ keys: [jwk] }))
}

function mandateOf(holders: readonly StoryHolder[]) {
  return {
    account: ACCOUNT,
    resources: [`${ACCOUNT}/*`],
    holders: holders.map(({ owner, issuer }) => ({ owner, issuer, weight: 1 })),
    rule: { kind: 'threshold', threshold: THRESHOLD },
  }
}

/** bob and carol, with a device key each and nothing else. */
function othersOf(holders: JointPlace['holders']): object {
  return {
    owners: OTHERS.map(owner => ({
      owner,
      device_keys: [{ name: `phone of ${owner}`, jwk: publicJwk(holders[owner].key) }],
    })),
  }
}

/** What the tally knows of the resource server, and what can be asked for there. */
function registryOf(resource_uri: string, client_secret: string) {
  return {
    resource_servers: [{ client_id: CLIENT_ID, client_secret, resource_uri }],
    registered: Object.entries(NAMES).map(([resource, name]) => {
      const over = TOOLS.filter(one => one.resource === resource)
      return {
        id: `${ACCOUNT}/${resource}`,
        client_id: CLIENT_ID,
        name,
        type: 'brokerage',
        resource_scopes: over.map(({ scope }) => scope),
        consequence: over.at(-1)!.consequence,
        tools: Object.fromEntries(over.map(({ tool, consequence }) => [tool, consequence])),
      }
    }),
  }
}

function routeOf(of: { tally: string; clientSecret: string; mandate_s256: string }): object {
  return {
    owner: ACCOUNT,
    path: RESOURCE_PATH,
    joint: { tally: of.tally, account: ACCOUNT, mandate_s256: [of.mandate_s256] },
    client_id: CLIENT_ID,
    client_secret: of.clientSecret,
    tools: TOOLS.map(({ tool, resource, scope, consequence }) => ({
      tool,
      resource_id: `${ACCOUNT}/${resource}`,
      scopes: [scope],
      consequence,
    })),
  }
}
