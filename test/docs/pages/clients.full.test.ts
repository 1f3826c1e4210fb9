/** docs/clients: the commands that add the bridge to a client print an entry, and write it. */
import { expect, test } from 'vitest'
import { runPage, type Ran } from '../../support/pages.ts'

const IN_HOME = { timeoutMs: 50_000, before: 'cd ~' }

/** Each page by its own name, so that the list of blocks can be held to this file. */
const PAGES: [string, () => Promise<Ran[]>][] = [
  ['Claude Code', () => runPage('docs/clients/claude-code.md', IN_HOME)],
  ['Claude Desktop', () => runPage('docs/clients/claude-desktop.md', IN_HOME)],
  ['Codex', () => runPage('docs/clients/codex.md', IN_HOME)],
  ['Cursor', () => runPage('docs/clients/cursor.md', IN_HOME)],
  ['VS Code', () => runPage('docs/clients/vscode.md', IN_HOME)],
]

test.each(PAGES)('the commands for %s print the entry, and write it', async (_, run) => {
  for (const { printed } of await run()) expect(printed).toContain('https://tools.example.com/mcp/alice')
})
