/**
 * Owns what the demo leaves for a person to try: a file of settings for the shell, and commands that work
 * with it. Contract: "What the service does": the same beats, at one's own pace.
 */
import { writeFile } from 'node:fs/promises'
import { extname, join } from 'node:path'
import type { Stack } from './stack.ts'

/**
 * Writes the file to be sourced: it makes `usher` a command, as alice and as an agent she does not know yet.
 */
export async function writeTryFile({ directory, household, issuer }: Stack): Promise<string> {
  const cli = join(import.meta.dirname, '..', `cli${extname(import.meta.filename)}`)
  const settings = {
    UMA_DEV_LOOPBACK: 'true',
    UMA_OWNER_ISSUER: issuer,
    UMA_OWNER_KEY: household.ownerKeyFile,
    UMA_AGENT_KEY: household.agentKeyFile,
    UMA_AGENT_STORE: join(directory, 'agent'),
  }
  const lines = [
    ...Object.entries(settings).map(([name, value]) => `export ${name}=${quote(value)}`),
    `usher() { ${quote(process.execPath)} ${quote(cli)} "$@"; }`,
  ]
  const path = join(directory, 'try.sh')
  await writeFile(path, `${lines.join('\n')}\n`)
  return path
}

/** The line that adds the tools to an MCP client. */
export function clientLine(resource: string): string {
  return `usher agent bridge config --client claude-code ${resource} --write`
}

/** What to type. */
export function tryByHand(
  { resource, toolServer }: Stack,
  tryFile: string,
  link: string | undefined,
): string {
  const page = link === undefined ? '' : `Decide as alice, with an agent that waits:\n\n  ${link}\n\n`
  return `
${page}It all stays up until you press Ctrl-C. In another terminal:

  . ${tryFile}

  usher agent call ${resource} portfolio_read                            # held: alice does not know this agent
  usher owner pending                                                    # in a third terminal, sourced too
  usher owner approve <family>                                           # and the call goes through
  usher agent call ${resource} place_trade '{"symbol":"VTI","qty":2}'    # held again: every trade is
  usher owner connections
  usher owner revoke <handle>                                            # the next call is refused
  usher owner ledger

  ${clientLine(resource)}     # adds the tools to an MCP client (also: cursor, vscode, …)

  curl -s http://127.0.0.1:${toolServer.port}/record                     # what reached the MCP server
`
}

/** What is left to say if the demo ends after its story. */
export function afterTheStory({ resource }: Pick<Stack, 'resource'>): string {
  return `With everything up (make demo), one line adds these tools to an MCP client (also: cursor, vscode, …):

  ${clientLine(resource)}

`
}

function quote(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`
}
