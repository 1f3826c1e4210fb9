/**
 * Owns the rows about settings: what is wrong, what must be named, and the remedy.
 */
import {
  at,
  databaseWith,
  empty,
  ofAuthority,
  ofOrganization,
  ofSidecar,
  ofTally,
  ofWitness,
  database,
  socket,
  taken,
  type Environment,
} from './bed.ts'

/** One thing that is wrong. */
export interface Case {
  name: string
  args: string[]
  environment: () => Environment
  /** What of the configuration is named. */
  setting: RegExp
  remedy: RegExp
}

/** What is wrong with the database, with addresses, or with names and values of settings. */
export const WRONG_SETTINGS: Case[] = [
  // The database.
  {
    name: 'the database refuses connections',
    args: ['authority'],
    environment: () => ({ ...ofAuthority(), DATABASE_URL: 'postgres://usher@127.0.0.1:1/usher' }),
    setting: /DATABASE_URL: no primary answered at 127\.0\.0\.1:1\/usher/,
    remedy: /Start Postgres there, or correct the host and the port/,
  },
  {
    name: 'the host of the database is misspelt',
    args: ['organization'],
    environment: () => ({ ...ofOrganization(), DATABASE_URL: 'postgres://usher@database.invalid/usher' }),
    setting: /DATABASE_URL: no primary answered at database\.invalid/,
    remedy: /correct the host/,
  },
  {
    name: 'the password of the database is wrong',
    args: ['authority'],
    environment: () => ({ ...ofAuthority(), DATABASE_URL: databaseWith(url => (url.password = 'wrong')) }),
    setting: /DATABASE_URL: .*password authentication failed/,
    remedy: /Correct the user and the password/,
  },
  {
    name: 'the database is not there',
    args: ['tally'],
    environment: () => ({ ...ofTally(), DATABASE_URL: databaseWith(url => (url.pathname = '/nowhere')) }),
    setting: /DATABASE_URL: .*"nowhere" does not exist/,
    remedy: /CREATE DATABASE/,
  },
  {
    name: 'the database speaks no TLS, and the URL asks for it',
    args: ['authority'],
    environment: () => ({
      ...ofAuthority(),
      DATABASE_URL: databaseWith(url => url.searchParams.set('sslmode', 'verify-full')),
    }),
    setting: /DATABASE_URL: /,
    remedy: /leave sslmode out/,
  },
  {
    name: 'the URL of the database is one of another product',
    args: ['authority'],
    environment: () => ({ ...ofAuthority(), DATABASE_URL: 'mysql://usher@db/usher' }),
    setting: /DATABASE_URL: The scheme must be postgres/,
    remedy: /Give postgres:\/\//,
  },
  {
    name: "the database is another party's",
    args: ['tally'],
    environment: ofTally,
    setting: /DATABASE_URL leads to a database of another party \(authority\)/,
    remedy: /needs one of its own/,
  },
  ...(
    [
      ['authority', 'UMA_AS', ofAuthority, 'usher migrate'],
      ['organization', 'UMA_ORG', ofOrganization, 'usher organization migrate'],
      ['tally', 'UMA_TALLY', ofTally, 'usher tally migrate'],
      ['witness', 'UMA_WITNESS', ofWitness, 'usher witness migrate'],
    ] as const
  ).map(([party, prefix, environment, command]) => ({
    name: `the ${party} is not to migrate, and nobody has`,
    args: [party],
    environment: () => ({ ...environment(), DATABASE_URL: empty, [`${prefix}_MIGRATE`]: 'false' }),
    setting: new RegExp(`${prefix}_MIGRATE is false, and the database of DATABASE_URL lacks`),
    remedy: new RegExp(`run \`${command}\` first`),
  })),

  // Addresses.
  ...(
    [
      ['authority', 'UMA_AS_LISTEN', ofAuthority],
      ['authority', 'UMA_AS_OWNER_LISTEN', ofAuthority],
      ['authority', 'UMA_AS_METRICS_LISTEN', ofAuthority],
    ] as const
  ).map(([party, variable, environment]) => ({
    name: `another process has the address of ${variable}`,
    args: [party],
    environment: () => ({ ...environment(), [variable]: taken.address }),
    setting: new RegExp(`${variable}: cannot listen at 127`),
    remedy: /another process listens there\. End it .* or give another address/,
  })),
  {
    name: 'a second process is started at the same Unix socket',
    args: ['authority'],
    environment: () => ({ ...ofAuthority(), UMA_AS_LISTEN: `unix:${socket.path}` }),
    setting: /UMA_AS_LISTEN: cannot listen at unix:.*EADDRINUSE/,
    remedy: /is this started twice\?/,
  },
  {
    name: 'the address is none of this machine',
    args: ['authority'],
    environment: () => ({ ...ofAuthority(), UMA_AS_OWNER_LISTEN: '203.0.113.1:0' }),
    setting: /UMA_AS_OWNER_LISTEN: cannot listen at 203/,
    remedy: /Give one of its own/,
  },
  {
    name: 'the folder of a Unix socket is not there',
    args: ['sidecar'],
    environment: () => ofSidecar({ listen: { check: 'unix:/nowhere/check.sock', http: '127.0.0.1:0' } }),
    setting: /listen\.check: cannot listen at unix:\/nowhere/,
    remedy: /a socket in a folder that is there/,
  },
  {
    name: 'another process has the address for checks',
    args: ['sidecar'],
    environment: () => ofSidecar({ listen: { check: taken.address, http: '127.0.0.1:0' } }),
    setting: /listen\.check: cannot listen at 127/,
    remedy: /give another address/,
  },
  {
    name: 'another process has the address of the documents',
    args: ['sidecar'],
    environment: () => ofSidecar({ listen: { check: '127.0.0.1:0', http: taken.address } }),
    setting: /listen\.http: cannot listen at 127/,
    remedy: /give another address/,
  },
  {
    name: 'an address has no port',
    args: ['authority'],
    environment: () => ({ ...ofAuthority(), UMA_AS_LISTEN: 'localhost' }),
    setting: /UMA_AS_LISTEN: /,
    remedy: /Give host:port/,
  },
  {
    name: 'another process has the address of the bridge',
    args: ['agent', 'bridge', 'https://tools.example/mcp/alice', '--listen', 'TAKEN'],
    environment: () => ({ UMA_BRIDGE_STATE: at('bridge') }),
    setting: /--listen: 127\.0\.0\.1:\d+: another process listens there/,
    remedy: /Give another port; 0 takes one that is free/,
  },

  // Names and values of settings.
  {
    name: 'a setting is missing',
    args: ['authority'],
    environment: () => ({ DATABASE_URL: database.url }),
    setting: /Set UMA_AS_ISSUER: /,
    remedy: /Set UMA_AS_KEYS_FILE: /,
  },
  {
    name: 'a setting is misspelt',
    args: ['authority'],
    environment: () => ({ ...ofAuthority(), UMA_AS_OWNER_LISTNE: '127.0.0.1:0' }),
    setting: /UMA_AS_OWNER_LISTNE is not a setting of usher/,
    remedy: /did you mean UMA_AS_OWNER_LISTEN\?/,
  },
  {
    name: 'a setting is made up',
    args: ['tally'],
    environment: () => ({ ...ofTally(), UMA_TALLY_FASTER: 'true' }),
    setting: /UMA_TALLY_FASTER is not a setting of usher/,
    remedy: /remove it or correct its name/,
  },
  {
    name: 'a URL has no scheme',
    args: ['authority'],
    environment: () => ({ ...ofAuthority(), UMA_AS_ISSUER: 'as.example.com' }),
    setting: /UMA_AS_ISSUER: /,
    remedy: /Give an absolute URL/,
  },
  {
    name: 'the issuer is not https',
    args: ['organization'],
    environment: () => ({ ...ofOrganization(), UMA_ORG_ISSUER: 'http://org.example.com' }),
    setting: /UMA_ORG_ISSUER: .* is not https/,
    remedy: /Give an https URL/,
  },
  {
    name: 'a duration has no unit',
    args: ['authority'],
    environment: () => ({ ...ofAuthority(), UMA_AS_TRAJECTORY_WINDOW: '7' }),
    setting: /UMA_AS_TRAJECTORY_WINDOW: /,
    remedy: /Give a duration such as 7d/,
  },
  {
    name: 'a number is out of bounds',
    args: ['authority'],
    environment: () => ({ ...ofAuthority(), UMA_AS_TICKET_SECONDS: '0' }),
    setting: /UMA_AS_TICKET_SECONDS: /,
    remedy: /Give a whole number from/,
  },
  {
    name: 'a word is none of those that are taken',
    args: ['authority'],
    environment: () => ({ ...ofAuthority(), UMA_AS_OWNER_AUTH: 'password' }),
    setting: /UMA_AS_OWNER_AUTH: /,
    remedy: /Give one or more of `device-key`, `oidc`/,
  },
  {
    name: 'logins are taken, and no realm is named',
    args: ['authority'],
    environment: () => ({ ...ofAuthority(), UMA_AS_OWNER_AUTH: 'oidc' }),
    setting: /Set UMA_AS_OIDC_ISSUER/,
    remedy: /Set UMA_AS_OIDC_AUDIENCE/,
  },
  {
    name: 'the bridge is given a plain http address',
    args: ['agent', 'bridge', 'http://tools.example/mcp/alice'],
    environment: () => ({ UMA_BRIDGE_STATE: at('bridge') }),
    setting: /resource/,
    remedy: /must be an https URL/,
  },
]
