/**
 * Owns what the demo leaves for a person to try: a file of settings for the shell, and commands that work
 * with it. Contract: "What the service does": the same beats, at one's own pace.
 */
import { writeFile } from 'node:fs/promises'
import { extname, join } from 'node:path'
import type { Stack } from '../stack/stack.ts'

/** What Node runs as `usher`. */
export const CLI = join(import.meta.dirname, '..', '..', `cli${extname(import.meta.filename)}`)

/**
 * The settings by which `usher` acts as alice, as an agent she does not know yet, and as the administrator of
 * an organization, if there is one.
 */
export function handSettings(stack: Stack): Record<string, string> {
  const { directory, household, issuer, organization } = stack
  return {
    UMA_DEV_LOOPBACK: 'true',
    UMA_OWNER_ISSUER: issuer,
    UMA_OWNER_KEY: household.ownerKeyFile,
    UMA_AGENT_KEY: household.agentKeyFile,
    UMA_AGENT_STORE: join(directory, 'agent'),
    ...(organization && {
      UMA_ADMIN_ISSUER: organization.issuer,
      UMA_ADMIN_API: organization.replicas[0]!.adminApi,
      UMA_ADMIN_KEY: organization.adminKeyFile,
    }),
  }
}

/** Writes the file to be sourced: it makes `usher` a command, with these settings. */
export async function writeTryFile(stack: Stack): Promise<string> {
  const lines = [
    ...Object.entries(handSettings(stack)).map(([name, value]) => `export ${name}=${quote(value)}`),
    `usher() { ${quote(process.execPath)} ${quote(CLI)} "$@"; }`,
  ]
  const path = join(stack.directory, 'try.sh')
  await writeFile(path, `${lines.join('\n')}\n`)
  return path
}

/** The line that adds the tools to an MCP client. */
export function clientLine(resource: string): string {
  return `usher agent bridge config --client claude-code ${resource} --write`
}

/** Writes the receipt of the first grant beside the logs. @returns its path; undefined if there is none. */
export async function writeReceipt(
  { directory }: Pick<Stack, 'directory'>,
  receipt: string | undefined,
): Promise<string | undefined> {
  if (receipt === undefined) return undefined
  const path = join(directory, 'receipt.jws')
  await writeFile(path, `${receipt}\n`)
  return path
}

/** What a person can try, and where it is. */
export interface ByHand {
  /** The file to be sourced. */
  tryFile: string
  /** Her page; undefined if it is not built. */
  link: string | undefined
  /** The receipt of the story's first grant. */
  receipt: string | undefined
}

/** What to type. */
export function tryByHand(stack: Stack, { tryFile, link, receipt }: ByHand): string {
  const { resource, toolServer } = stack
  const page = link === undefined ? '' : `Decide as alice, with an agent that waits:\n\n  ${link}\n\n`
  return `
${page}It all stays up until you press Ctrl-C. In another terminal:

  . ${tryFile}

  usher agent call ${resource} portfolio_read                            # held: alice does not know this agent
  usher owner pending                                                    # in a third terminal, sourced too; yours is the latest
  usher owner approve <family>                                           # and the call goes through
  usher agent call ${resource} place_trade '{"symbol":"VTI","qty":2}'    # held again: every trade is
  usher owner connections
  usher owner revoke <handle>                                            # the next call is refused
  usher owner ledger
${organizationActs(stack)}
  ${clientLine(resource)}     # adds the tools to an MCP client (also: cursor, vscode, …)

  curl -s http://127.0.0.1:${toolServer.port}/record                     # what reached the MCP server

${placesText(stack, receipt)}`
}

/** What the story of an organization did, to be done again: at its end alice has left. */
function organizationActs({ issuer, resource, organization }: Stack): string {
  if (organization === undefined) return ''
  return `
As ines, who administers the organization, and as alice, who has left it and may join again:

  usher admin invite alice --authority ${issuer}            # prints a code, once
  usher owner organization preview <code>                                # what it binds her to; the last line is how she joins
  usher agent call ${resource} portfolio_read                            # once she has joined: nobody vouches for this agent
  usher admin members
  voucher=$(usher admin break-glass alice --reason 'the market burns')   # an emergency: for one call
  usher agent break-glass ${resource} place_trade '{"symbol":"BND","qty":40}' \\
    --organization ${organization.issuer} --owner alice --resource-id alice/trades --scope trade \\
    --reason 'the market burns' --voucher "$voucher"
  usher owner ledger --kind break_glass                                  # she sees all of it
  usher owner organization leave
`
}

function placesText({ directory, databaseUrl, issuer }: Stack, receipt: string | undefined): string {
  const receiptText =
    receipt === undefined
      ? ''
      : `The first receipt is ${receipt}. It is a JWS: any JOSE library verifies it by the keys at ${issuer}/jwks.
With usher, and asking nobody:

  curl -s ${issuer}/jwks > ${receipt}.keys && usher verify receipt ${receipt} --keys ${receipt}.keys

`
  const database = databaseUrl === undefined ? '' : `   Database: ${databaseUrl}`
  return `Logs, until you end it: ${directory}/*.log${database}\n${receiptText}`
}

/** What is left to say if the demo ends after its story, and nothing listens any more. */
export const AFTER_THE_STORY =
  'make demo keeps everything up after the story, and prints what to try by hand.\n\n'

function quote(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`
}
