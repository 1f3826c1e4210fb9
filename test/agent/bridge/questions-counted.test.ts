/**
 * contract, "Agreement (claim_token, beat 3)" (what strangers write is shown, never obeyed): a server has so
 * many questions in a call, whether or not they may be asked.
 */
import { expect, it } from 'vitest'
import { QUESTIONS_OF_CALL_MAX } from '../../../src/agent/bridge/bounds.ts'
import { openQuestions } from '../../../src/agent/bridge/questions/questions.ts'

it('counts questions that may not be asked, so that a server has no more of them noted than of others', async () => {
  const noted: boolean[] = []
  const questions = openQuestions('https://tools.example/mcp', (_tool, isAside) => void noted.push(isAside))
  let asked = 0
  const { call } = questions.begin('read', () => {
    asked++
    return Promise.resolve({ action: 'accept' })
  })
  const { signal } = new AbortController()
  for (let n = 0; n < QUESTIONS_OF_CALL_MAX * 2; n++) {
    const about = n % 2 === 0 ? call : undefined
    await expect(questions.answer({ method: 'no/question' }, about, signal)).rejects.toThrow()
  }
  await expect(questions.answer({ method: 'roots/list' }, call, signal)).rejects.toThrow(
    /One question at a time/,
  )
  expect([noted.length, asked]).toEqual([QUESTIONS_OF_CALL_MAX, 0])
})
