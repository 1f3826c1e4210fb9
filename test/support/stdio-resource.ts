/**
 * Owns a resource over stdio as docs/embedded.md shows it, as a process of its own: its messages on standard
 * input and output, its public documents over HTTP. Arguments: the file of its configuration, and a port.
 */
import { createServer } from 'node:http'
import { McpServer } from '@modelcontextprotocol/server'
import { serveStdio, StdioServerTransport } from '@modelcontextprotocol/server/stdio'
import { embed } from '../../src/enforcement/doors/embedded/index.ts'

const [, , file, port] = process.argv
const usher = await embed(file)
const documents = usher.documents()
createServer((request, response) => {
  documents(request, response, () => void response.writeHead(404).end())
}).listen(Number(port), '127.0.0.1', () => usher.register())

const factory = (): McpServer => {
  const server = new McpServer({ name: 'tools', version: '1' })
  server.registerTool('portfolio_read', {}, () => ({ content: [] }))
  return server
}
serveStdio(factory, { transport: usher.guard(new StdioServerTransport(), 'alice') })
