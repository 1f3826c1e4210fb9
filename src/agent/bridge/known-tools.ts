/**
 * Owns what the calls of one client have shown about tools. Contract: "What the service does", beats 1 to 4:
 * what calling a tool takes is known from its last call.
 */
import type { CallParts } from './call-parts.ts'
import type { KnownTool } from './negotiation/state.ts'

/** The known facts about the tools, and how a change is noted. */
export class KnownTools {
  readonly #parts: Pick<CallParts, 'state' | 'onKnown'>
  /** What could not be written. Otherwise the disk counts: other windows of the client write there, too. */
  readonly #unwritten = new Map<string, KnownTool>()
  #turn: Promise<void> = Promise.resolve()

  constructor(parts: Pick<CallParts, 'state' | 'onKnown'>) {
    this.#parts = parts
  }

  /** What the last call of the tool met; undefined if it was not called yet. */
  async known(resource: string, tool: string): Promise<KnownTool | undefined> {
    return this.#unwritten.get(`${resource} ${tool}`) ?? this.#parts.state.tool(resource, tool)
  }

  /** Notes what is known of a tool by now. Without a definition, the one of before stays. */
  note(...fact: ToolFacts): Promise<void> {
    // One after the other: of two at once, the one that knows less must not be written last.
    const noted = this.#turn.then(() => this.#write(...fact))
    this.#turn = noted.catch(() => undefined)
    return noted
  }

  async #write(...[resource, tool, access, definition]: ToolFacts): Promise<void> {
    const before = await this.known(resource, tool)
    const now = { resource, tool, access, definition: definition ?? before?.definition }
    const name = `${resource} ${tool}`
    const isNews = before?.access !== access || before.definition !== now.definition
    if (!isNews && !this.#unwritten.has(name)) return
    this.#unwritten.set(name, now)
    try {
      await this.#parts.state.keepTool(now)
      this.#unwritten.delete(name)
    } finally {
      // A person's consent changes nothing that a list shows; the grant after it does.
      if (before?.access !== access) this.#parts.onKnown()
    }
  }
}

type ToolFacts = [resource: string, tool: string, access: KnownTool['access'], definition?: string]
