// A small MCP server with the notes of several people. It knows nothing of usher: whoever stands in front of
// it says in `x-uma-owner` whose notes a tool is called on. Whatever else a client asks, such as the list of
// tools, is the same for all and is answered without. Run it with: node notes-server.mjs 9300
import { createServer } from 'node:http'
import { toNodeHandler } from '@modelcontextprotocol/node'
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server'
import { z } from 'zod'

const NOTES = {
  alice: ['Buy milk', 'Call the bank'],
  bob: ['Water the plants', 'Renew the passport'],
}

/** The tools on one person's notes; on nobody's if `notes` is left out, and then no call of a tool succeeds. */
function serverOf(notes) {
  const server = new McpServer({ name: 'notes', version: '1.0.0' })
  const answer = text => ({ content: [{ type: 'text', text }] })
  const nobodys = { ...answer('Nobody by that name has notes here.'), isError: true }
  server.registerTool(
    'notes_read',
    {
      description: 'All notes, numbered from 1.',
      inputSchema: z.object({}),
      annotations: { readOnlyHint: true },
    },
    () => {
      if (notes === undefined) return nobodys
      return answer(notes.map((note, at) => `${at + 1}. ${note}`).join('; ') || 'There are no notes.')
    },
  )
  server.registerTool(
    'notes_delete',
    {
      description: 'Deletes one note for good.',
      inputSchema: z.object({ number: z.number().int().min(1) }),
      annotations: { readOnlyHint: false, destructiveHint: true },
    },
    ({ number }) => {
      if (notes === undefined) return nobodys
      const [deleted] = notes.splice(number - 1, 1)
      return answer(deleted === undefined ? 'There is no such note.' : `Deleted: ${deleted}`)
    },
  )
  return server
}

const handlerOf = notes => toNodeHandler(createMcpHandler(() => serverOf(notes)))
const handlers = new Map(Object.entries(NOTES).map(([owner, notes]) => [owner, handlerOf(notes)]))
const withoutNotes = handlerOf(undefined)

createServer((request, response) => {
  const handler = handlers.get(request.headers['x-uma-owner']) ?? withoutNotes
  void handler(request, response)
}).listen(Number(process.argv[2]), '127.0.0.1')
