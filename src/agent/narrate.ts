/**
 * Owns how a running call is shown on a terminal. Contract: "What the service does", beats 1 to 4. Steps go
 * to standard error, so that standard output has only the tool's answer.
 */
import { createInterface } from 'node:readline/promises'
import type { Terminal } from '../terminal/command.ts'
import {
  printable,
  printableJson,
  printableLines,
  printableTime,
  printableValue,
  record,
} from '../terminal/printable.ts'
import { inexactNumberIn, isJsonObject, parseWithSource, rawJSON, type Json } from '../wire/json.ts'
import type { TermsTemplate } from '../wire/negotiation/terms.ts'
import type { AgentEvent } from './events.ts'

/** A listener that tells each step as it happens. Polls of one wait are printed once. */
export function teller(terminal: Terminal): (event: AgentEvent) => void {
  let waitedFor: string | undefined
  return event => {
    if (event.type === 'waiting' && event.family === waitedFor) return
    waitedFor = event.type === 'waiting' ? event.family : undefined
    terminal.err(tell(event))
  }
}

function tell(event: AgentEvent): string {
  switch (event.type) {
    case 'calling':
      return `→ ${printable(event.call.tool)} at ${printable(event.resource)} ${WITH[event.grant]}\n`
    case 'challenged':
      return `← refused: a grant for "${printable(event.scope)}" is needed, from ${printable(event.as_uri)}\n`
    case 'authority_confirmed':
      return `  the resource itself names that authority (${printable(event.metadata)})\n`
    case 'identity_presented':
      return `→ identity asserted by ${printable(event.issuer)}\n`
    case 'terms_offered':
      return `← the owner's terms:\n${termsText(event.template)}`
    case 'terms_declined':
      return '→ terms declined; the owner is notified\n'
    case 'agreement_signed':
      return `→ terms signed, agreement ${printable(event.contract)}${operationText(event.operation)}\n`
    case 'waiting':
      return `… ${WAITING[event.kind ?? 'unsaid']} (negotiation ${printable(event.family)})\n${event.reasonShown === false ? JOINED : ''}`
    case 'granted':
      return `← granted ${event.grant.single_use ? 'for this one call' : `until ${printableTime(event.grant.exp)}`}; receipt verified and kept\n`
    case 'retrying':
      return `… ${printable(event.code)}; trying again in ${event.afterSeconds} s\n`
    case 'answered':
      return `← answered\n`
  }
}

const WITH = {
  none: 'without a grant',
  kept: 'with the grant kept from before',
  fresh: 'with the new grant, signed',
}
const WAITING = {
  connection: 'the owner is being asked whether to let this agent in',
  operation: 'the owner is being asked about this very operation',
  unsaid: 'the owner is being asked',
}

/** The item keeps what the agent signed first. */
const JOINED =
  '  An equal request of yours waits already: the owner reads the reason of that one, and not this one.\n'

function operationText(operation: { tool: string; params: unknown } | undefined): string {
  if (!operation) return ''
  return `, for ${printable(operation.tool)} ${printable(JSON.stringify(operation.params))} and nothing else`
}

function termsText(template: TermsTemplate): string {
  const { template_id, purpose, scope, prohibited, expires_in, per_operation, resource_id, terms_uri } =
    template
  return record(
    {
      terms: template_id,
      resource: resource_id,
      purpose,
      allows: scope,
      prohibits: prohibited.length === 0 ? undefined : prohibited,
      lasts: `${expires_in} s`,
      'asks each time': per_operation === true ? 'yes' : undefined,
      document: terms_uri,
    },
    '    ',
  )
}

/**
 * An answer that is only printed: a number that no double carries is one that `JSON.stringify` writes as it
 * came.
 */
export function parseToPrint(text: string): Json {
  if (inexactNumberIn(text) === undefined) return JSON.parse(text) as Json
  return parseWithSource(text, (_name, value, { source }) =>
    typeof value === 'number' && source !== undefined && inexactNumberIn(source) !== undefined
      ? rawJSON(source)
      : value,
  )
}

/** The answer of a tool: its text as text, anything else as JSON. */
export function resultText(result: Json): string {
  const content = isJsonObject(result) ? result['content'] : undefined
  if (!Array.isArray(content) || content.length === 0) return `${printableJson(result)}\n`
  return content.map(part => `${contentText(part)}\n`).join('')
}

function contentText(part: Json): string {
  if (isJsonObject(part) && part['type'] === 'text' && typeof part['text'] === 'string') {
    return printableLines(part['text'])
  }
  return isJsonObject(part) ? printableJson(part) : printableValue(part)
}

/** Asks about the terms, which were shown before. Without a terminal to ask at, the answer is no. */
export async function confirmAtTerminal(template: TermsTemplate, terminal: Terminal): Promise<boolean> {
  if (!process.stdin.isTTY) {
    terminal.err(
      'Nobody is here to confirm the terms; they are declined. Leave --confirm out to sign them.\n',
    )
    return false
  }
  const prompt = createInterface({ input: process.stdin, output: process.stderr })
  try {
    const answer = await prompt.question(`Sign ${printable(template.template_id)}? [y/N] `)
    return /^y(es)?$/i.test(answer.trim())
  } finally {
    prompt.close()
  }
}
