/** Owns a call of a plain API as a test writes it, signed or not, and what comes back. */
import { request } from 'node:http'
import { signRequest } from '../../src/wire/signatures/http-signature.ts'
import type { PrivateKey } from '../../src/wire/signatures/keys.ts'

export interface HandCall {
  method?: string
  path: string
  query?: string
  headers?: Record<string, string>
  body?: string
  token?: string
}

/** One request as it is written here, with a grant and its signature if a token is given. */
export async function callApiByHand(
  origin: string,
  key: PrivateKey,
  { method = 'GET', path: target, query, headers = {}, body, token }: HandCall,
) {
  const authorization = token === undefined ? undefined : `PoP ${token}`
  const signed =
    authorization === undefined
      ? {}
      : signRequest(
          {
            method,
            scheme: 'http',
            authority: new URL(origin).host,
            path: target,
            query,
            headers: new Map([['authorization', [authorization]]]),
          },
          key,
          {
            components: [
              '@method',
              '@authority',
              '@path',
              ...(query === undefined ? [] : ['@query']),
              'authorization',
            ],
            created: Math.floor(Date.now() / 1000),
          },
        )
  const answer = await new Promise<{
    status: number
    challenges: string[]
    allow: string | undefined
    text: string
  }>((resolve, reject) => {
    const sent = request({
      host: new URL(origin).hostname,
      port: new URL(origin).port,
      method,
      path: query === undefined ? target : `${target}?${query}`,
      headers: { ...headers, ...signed, ...(authorization === undefined ? {} : { authorization }) },
    })
    sent.on('error', reject).on('response', response => {
      const chunks: Buffer[] = []
      response.on('data', (chunk: Buffer) => chunks.push(chunk))
      response.on('end', () => {
        const challenges = response.headersDistinct['www-authenticate'] ?? []
        const text = Buffer.concat(chunks).toString()
        resolve({ status: response.statusCode!, challenges, allow: response.headers.allow, text })
      })
    })
    sent.end(body)
  })
  const json = answer.text.startsWith('{') ? (JSON.parse(answer.text) as { error?: string }) : {}
  return { ...answer, error: json.error, json }
}
